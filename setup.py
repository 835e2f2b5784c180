"""Which packages a wheel has: those of `ablate`, and data folders from the top of the repository.

Everything else stands in pyproject.toml, which cannot add to the packages that setuptools finds.
"""

from setuptools import find_packages, setup

DATA = ("search_spaces", "studies")  # in a wheel they lie inside the package: ablate/studies

setup(
    packages=[*find_packages(include=["ablate", "ablate.*"]), *(f"ablate.{name}" for name in DATA)],
    package_dir={f"ablate.{name}": name for name in DATA},
)
