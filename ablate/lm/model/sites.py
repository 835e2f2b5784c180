"""Refuse masks at sites at which a model asks for none, so that they would do nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ablate.config import registry
from ablate.config.config import Config
from ablate.errors import CombinationError

OF_BACKBONES = ("hidden", "recurrent", "weight")  # the sites that some have and others have not
OF_HEADS = ("latent",)
MEANT = {
    "hidden": "the output of layers before the last",
    "recurrent": "a recurrent state",
    "weight": "recurrent matrices",
    "latent": "the vectors of a mixture's experts",
}


def check_sites(config: Config) -> None:
    """Check every regularizer's sites against the backbone's.

    Sites of other parts, and "hidden" where there happens to be one layer, are not refused: arms
    and searches share settings over heads and numbers of layers. A table then names the settings
    that had no effect.
    """
    # An encoder has recurrent layers of its own.
    if "encoder" not in config.slots:
        for path, site in _idle(config, "backbone", OF_BACKBONES):
            raise CombinationError(_refusal(config, "backbone", path, site))


def check_stated(config: Config, stated: Collection[str]) -> None:
    """Check those sites of an arm that belong to its head, for the settings that the arm states.

    What all arms share, such as a recipe for a mixture, also reaches arms that have another head.
    """
    for path, site in _idle(config, "head", OF_HEADS):
        if path in stated:
            raise CombinationError(_refusal(config, "head", path, site))


def sites_of(name: str, slot: str = "backbone") -> frozenset[str] | None:
    """The sites that a backbone or a head says it has; None if it does not say."""
    return registry.get(slot, name).build.sites


def _idle(config: Config, slot: str, of_slot: Collection[str]) -> Iterator[tuple[str, str]]:
    """Every setting that is on, with its site, if this part of the model does not ask there."""
    # Below a gate that trains alone, no mask acts.
    if not config.kind.assembles or config.training.only_gate:
        return
    sites = sites_of(config[slot].name, slot)
    for choice in config.listed.get("regularizer", ()):
        for setting, site in choice.make().acts_on.items():
            if sites is not None and site in of_slot and site not in sites:
                yield f"regularizer.{choice.name}.{setting}", site


def _refusal(config: Config, slot: str, path: str, site: str) -> str:
    # Those that do not say are left out: a user's own may have the site, or not.
    able = [name for name in registry.names(slot) if site in (sites_of(name, slot) or ())]
    return (
        f"{path} = {config.flat[path]} acts on {MEANT[site]}, and {slot} '{config[slot].name}' "
        f"asks for no mask there, so that the setting would change nothing. Instead: {path} = 0, "
        f"or one of the {slot}s that ask: {', '.join(able)}."
    )
