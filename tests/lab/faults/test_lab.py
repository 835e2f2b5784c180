"""What the two hosts need of this machine is checked before anything is started."""

from __future__ import annotations

import pytest

from tests.support import lab


@pytest.mark.parametrize("name", ["repository", "repository/.venv/bin", "link"])
def test_a_checkout_that_a_pod_cannot_see_is_named_at_once(name, tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "POD_TMP", tmp_path / "tmp")
    (tmp_path / "tmp" / "repository").mkdir(parents=True)
    (tmp_path / "tmp" / "link").symlink_to(tmp_path)  # from there to a folder that pods do see
    path = tmp_path / "tmp" / name
    problem = lab.unseen(tmp_path / "elsewhere", path)
    assert problem is not None and str(path) in problem and "Move" in problem


def test_a_link_into_the_hidden_folder_is_followed(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "POD_TMP", tmp_path / "tmp")
    (tmp_path / "tmp" / "venv").mkdir(parents=True)
    (tmp_path / "venv").symlink_to(tmp_path / "tmp" / "venv")
    assert str(tmp_path / "venv") in (lab.unseen(tmp_path / "venv") or "")


def test_a_checkout_anywhere_else_is_seen(tmp_path, monkeypatch):
    monkeypatch.setattr(lab, "POD_TMP", tmp_path / "tmp")
    assert lab.unseen(tmp_path / "tmpfs", tmp_path / "elsewhere") is None


def test_the_programs_of_pods_are_checked():
    assert lab.ROOT in lab.NEEDED and lab.BIN in lab.NEEDED
