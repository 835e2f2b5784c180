"""Refuse masks at sites of a backbone at which it asks for none, so that they would do nothing."""

from __future__ import annotations

from ablate.config import registry
from ablate.config.config import Config
from ablate.errors import CombinationError

OF_BACKBONES = ("hidden", "recurrent", "weight")  # the sites that some have and others have not
MEANT = {
    "hidden": "the output of layers before the last",
    "recurrent": "a recurrent state",
    "weight": "recurrent matrices",
}


def check_sites(config: Config) -> None:
    """Check every regularizer's sites against the backbone's.

    Sites of other parts, and "hidden" where there happens to be one layer, are not refused: arms
    and searches share settings over heads and numbers of layers. A table then names the settings
    that had no effect.
    """
    # An encoder has recurrent layers of its own; below a gate that trains alone, no mask acts.
    if "encoder" in config.slots or config.training.only_gate:
        return
    sites = sites_of(config["backbone"].name)
    if sites is None:
        return
    for choice in config.listed.get("regularizer", ()):
        for setting, site in choice.make().acts_on.items():
            if site in OF_BACKBONES and site not in sites:
                raise CombinationError(_refusal(config, choice.name, setting, site))


def sites_of(backbone: str) -> frozenset[str] | None:
    """The sites that a backbone says it has; None if it does not say."""
    return registry.get("backbone", backbone).build.sites


def _refusal(config: Config, regularizer: str, setting: str, site: str) -> str:
    path = f"regularizer.{regularizer}.{setting}"
    value = config.flat[path]
    # Those that do not say are left out: a user's own may have the site, or not.
    able = [name for name in registry.names("backbone") if site in (sites_of(name) or ())]
    return (
        f"{path} = {value} acts on {MEANT[site]}, and backbone '{config['backbone'].name}' asks "
        f"for no mask there, so that the setting would change nothing. Instead: {path} = 0, or "
        f"one of the backbones that ask: {', '.join(able)}."
    )
