"""What a researcher would write without ablate: plain torch, as straightforward as it is fair."""
