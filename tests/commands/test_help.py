"""The help of every command, against tests/golden/help.txt, and its examples."""

from __future__ import annotations

import argparse
import shlex

import pytest

from ablate import cli, commands
from ablate.config.plugins import Plugin
from tests.support.golden import golden

PARSER = cli.parser(*commands.names())
COMMANDS = next(a for a in PARSER._actions if isinstance(a, argparse._SubParsersAction)).choices


@pytest.fixture(autouse=True)
def _terminal(monkeypatch):
    monkeypatch.setenv("COLUMNS", "90")
    monkeypatch.setenv("NO_COLOR", "1")


def printed(capsys, *arguments: str) -> str:
    """What `ablate ARGUMENTS` prints before it exits."""
    with pytest.raises(SystemExit) as left:
        cli.main(arguments)
    assert left.value.code == 0
    return capsys.readouterr().out


@pytest.mark.golden
def test_every_help_text_is_the_golden_one(capsys):
    pages = [printed(capsys, *name, "--help") for name in [(), *((name,) for name in COMMANDS)]]
    pages = [_usage_on_one_line(page) for page in pages]
    text = f"\n{'=' * 90}\n\n".join(pages)
    assert text == golden("help.txt", text)


def _usage_on_one_line(page: str) -> str:
    """Versions of Python wrap the usage differently."""
    usage, _, rest = page.partition("\n\n")
    return f"{' '.join(usage.split())}\n\n{rest}"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_an_example_that_parses(name, capsys):
    _, _, example = printed(capsys, name, "--help").partition("example:\n  ")
    program, *arguments = shlex.split(example, comments=True)
    assert program == "ablate" and commands.found(arguments)[0] == name
    options = PARSER.parse_args(commands.found(arguments))
    assert options.run is commands.load(name).run


def test_every_option_is_explained():
    unexplained = [
        f"{name} {'/'.join(action.option_strings) or action.dest}"
        for name, command in COMMANDS.items()
        for action in command._actions
        if not action.help
    ]
    assert unexplained == []


def test_the_help_has_every_command_once_in_its_group():
    grouped = [name for group in commands.GROUPS.values() for name in group]
    below = [name for name in commands.UNDER if name != commands.RUN]
    assert sorted([*grouped, *below]) == sorted([*commands.names(), commands.SHOW])
    assert len(grouped) <= 17


def test_commands_of_other_packages_come_last_and_replace_none(tmp_path, monkeypatch, capsys):
    package = tmp_path / "with_commands"
    package.mkdir()
    for name in ("__init__", "weigh", "table"):
        (package / f"{name}.py").write_text(f'"""Do what {name} does."""\n')
    monkeypatch.syspath_prepend(tmp_path)
    more = Plugin(package="with_commands", commands="with_commands")
    known = commands.plugins()
    monkeypatch.setattr(commands, "plugins", lambda: (*known, more))
    commands._files.cache_clear()
    try:
        shown = printed(capsys, "--help")
        table = commands.load("table").__name__
    finally:
        commands._files.cache_clear()
    assert "more:\n  weigh             do what weigh does\n" in shown
    assert table == "ablate.commands.table"


@pytest.mark.parametrize("name", [name for name in commands.UNDER if name != commands.RUN])
def test_a_command_below_another_answers_to_both_names(name, capsys):
    by_own_name = printed(capsys, name, "--help")
    assert printed(capsys, commands.UNDER[name], name, "--help") == by_own_name
    assert by_own_name.startswith(f"usage: ablate {commands.UNDER[name]} {name} ")


def test_show_alone_names_what_can_be_shown(capsys):
    assert cli.main(["show"]) == 2
    assert "Expected one of: show components, show spaces, show studies." in capsys.readouterr().err
    assert cli.main(["show", "componets"]) == 2
    assert "Did you mean 'show components'?" in capsys.readouterr().err
