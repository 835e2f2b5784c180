"""Eigenvalues of matrices whose eigenvalues are known, and the matrices that trials have."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ablate.errors import ConfigError
from ablate.lm.analysis import eigenvalues
from ablate.lm.analysis.eigenvalues import EigenvaluesOptions, recurrent_matrices
from ablate.trial.checkpoint import read_weights


def test_a_companion_matrix_has_the_roots_of_its_polynomial():
    roots = np.array([0.9 + 0.3j, 0.9 - 0.3j, -0.8, 0.1])
    first = -np.poly(roots).real[1:]
    matrix = np.vstack([first, np.eye(3, 4)])
    values = eigenvalues.eigenvalues(torch.from_numpy(matrix))
    np.testing.assert_allclose(values, roots, atol=1e-12)  # by modulus already


def test_a_rotation_lies_on_its_circle():
    turn, shrink = 0.7, 0.95
    matrix = shrink * torch.tensor([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
    expected = shrink * np.exp([1j * turn, -1j * turn])
    np.testing.assert_allclose(eigenvalues.eigenvalues(matrix), expected, rtol=1e-12)
    assert eigenvalues._row(1, complex(expected[0]))[-1] == pytest.approx(-1 / np.log(shrink))


def test_an_irlm_has_its_rs(irlm):
    finding = eigenvalues.run(irlm, EigenvaluesOptions(num=99))
    r = read_weights(irlm.store, irlm.id)["backbone.r"].numpy()
    np.testing.assert_allclose([row[3] for row in finding.rows], sorted(abs(r))[::-1], rtol=1e-6)
    assert "0 of 8 on or outside" in finding.notes[0] and "8 real" in finding.notes[0]


def test_an_lstm_has_a_matrix_for_each_gate(doc):
    matrices = recurrent_matrices(doc.model.backbone, "lstm")
    assert list(matrices) == [f"weight_hh_l0.{gate}" for gate in "ifgo"]
    whole = read_weights(doc.store, doc.id)["backbone.weight_hh_l0"]
    torch.testing.assert_close(torch.cat(list(matrices.values())).float(), whole)


@pytest.mark.parametrize(
    ("backbone", "names"),
    [
        ({"backbone": "gru"}, ["weight_hh_l0.r", "weight_hh_l0.z", "weight_hh_l0.n"]),
        ({"backbone": "rhn", "backbone.depth": 1}, ["weight_hh_1.h", "weight_hh_1.t"]),
        ({"backbone": "elman", "backbone.blocks": (5, 3)}, ["weight_hh_l0"]),
        ({"backbone": "mogrifier", "backbone.rounds": 1}, [f"weight_hh_l0.{g}" for g in "ifgo"]),
    ],
)  # fmt: skip
def test_every_backbone_has_its_matrices(backbone, names):
    from ablate.config.resolve import resolve
    from ablate.lm.model.assemble import assemble

    layers = {} if backbone["backbone"] == "rhn" else {"backbone.num_layers": 1}
    values = {"embedding.size": 8, "head": "softmax", "optimizer": "sgd", "backbone.units": 8}
    model = assemble(resolve({**values, **layers, **backbone}), 11).model
    for parameter in model.parameters():
        parameter.data.fill_(1.0)
    matrices = recurrent_matrices(model.backbone, backbone["backbone"])
    assert list(matrices) == names
    assert all(matrix.shape == (8, 8) for matrix in matrices.values())
    if "backbone.blocks" in backbone:  # ones in blocks of 5 and 3
        np.testing.assert_allclose(
            eigenvalues.eigenvalues(matrices["weight_hh_l0"])[:3].real, [5, 3, 0], atol=1e-9
        )


def test_an_unknown_matrix_is_refused(doc):
    with pytest.raises(ConfigError, match=r"unknown matrix 'weight_hh_l0'.* weight_hh_l0\.i"):
        eigenvalues.run(doc, EigenvaluesOptions(matrix="weight_hh_l0"))
