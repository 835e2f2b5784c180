"""Running what users wrote: a function, a command, the files of both."""
