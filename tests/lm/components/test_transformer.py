"""A Transformer against `transformers`' GPT-2 and Llama, and against plain loops and formulas."""

from __future__ import annotations

import math
import warnings

import pytest
import torch

from ablate.config.resolve import resolve
from ablate.config.streams import Streams
from ablate.errors import CombinationError
from ablate.lm.components.backbone import _attention, _block
from ablate.lm.model.assemble import assemble, count_parameters
from ablate.lm.model.masks import OFF, Chance, Masks
from ablate.lm.model.mixture import log_probs
from ablate.space import space

V, H, HEADS, T, B = 31, 16, 4, 7, 2
SMALL = {
    "backbone": "transformer",
    "head": "softmax",
    "optimizer": "sgd",
    "embedding.size": H,
    "backbone.units": H,
    "backbone.heads": HEADS,
    **dict.fromkeys(("training.window", "training.valid_window", "evaluator.standard.window"), 5),
}
GPT2 = {
    "head.tied": True,
    "head.bias": False,
    "backbone.biases": True,
    "backbone.positions": "learned",
    "backbone.context": 12,
    "backbone.feed_forward": "gelu_tanh",
}
LLAMA = {
    "head.bias": False,
    "backbone.norm": "rms",
    "backbone.norm_epsilon": 1e-6,
    "backbone.feed_forward": "swiglu",
    "backbone.feed_forward_units": 24,
    "backbone.rotary_base": 500.0,
}
IDS = torch.randint(0, V, (T, B), generator=torch.Generator().manual_seed(0))


def model_of(**settings):
    return assemble(resolve({**SMALL, **settings}), V).model


def backbone_of(**settings):
    """A small backbone in float64, whose parameters are all random, and random inputs."""
    model = model_of(**{f"backbone.{name}": value for name, value in settings.items()})
    model.initialize(Streams(1))
    shake(model)
    x = torch.randn(T, B, H, generator=torch.Generator().manual_seed(2)).double()
    return model.double().backbone, x


def shake(model):
    """Move every parameter, so that no scale is 1 and no bias 0."""
    chance = torch.Generator().manual_seed(4)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=chance), alpha=0.3)


def run(backbone, x, masks=OFF):
    raw, _, state = backbone(x, IDS[: len(x)], backbone.initial_state(B), masks)
    assert state == ()
    return raw


def theirs(name, **settings):
    """A model of `transformers`, with random weights; nothing is downloaded."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own imports
        from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM
    kinds = {"gpt2": (GPT2Config, GPT2LMHeadModel), "llama": (LlamaConfig, LlamaForCausalLM)}
    config, build = kinds[name]
    common = {"vocab_size": V, "bos_token_id": 0, "eos_token_id": 0, "attn_implementation": "eager"}
    model = build(config(**common, **settings)).double().eval()
    shake(model)
    return model


def gpt2_weights(weights):
    """Its layers multiply from the left, and have queries, keys and values in one matrix."""
    yield "embedding.weight", weights["transformer.wte.weight"]
    yield "backbone.positions", weights["transformer.wpe.weight"][:, None]
    for kind, ours in (("weight", "scale"), ("bias", "bias")):
        yield f"backbone.last.{ours}", weights[f"transformer.ln_f.{kind}"]
    for layer in range(2):
        here, there = f"backbone.blocks.{layer}", f"transformer.h.{layer}"
        for kind, ours in (("weight", "scale"), ("bias", "bias")):
            yield f"{here}.attention_norm.{ours}", weights[f"{there}.ln_1.{kind}"]
            yield f"{here}.feed_forward_norm.{ours}", weights[f"{there}.ln_2.{kind}"]
        for kind, end in (("weight", ""), ("bias", "_bias")):
            three = weights[f"{there}.attn.c_attn.{kind}"].t().chunk(3)
            for name, part in zip(("query", "key", "value"), three, strict=True):
                yield f"{here}.attention.{name}{end}", part
            own = {"attention.out": "attn.c_proj", "feed_forward.inner": "mlp.c_fc"}
            for name, other in {**own, "feed_forward.out": "mlp.c_proj"}.items():
                yield f"{here}.{name}{end}", weights[f"{there}.{other}.{kind}"].t()


def llama_weights(weights):
    names = {"attention_norm.scale": "input_layernorm"}
    names |= {"feed_forward_norm.scale": "post_attention_layernorm"}
    pairs = zip(("query", "key", "value", "out"), "qkvo", strict=True)
    names |= {f"attention.{name}": f"self_attn.{letter}_proj" for name, letter in pairs}
    three = zip(("gate", "inner", "out"), ("gate", "up", "down"), strict=True)
    names |= {f"feed_forward.{name}": f"mlp.{other}_proj" for name, other in three}
    yield "embedding.weight", weights["model.embed_tokens.weight"]
    yield "backbone.last.scale", weights["model.norm.weight"]
    yield "head.decoder.weight", weights["lm_head.weight"]
    for layer in range(2):
        for name, other in names.items():
            yield f"backbone.blocks.{layer}.{name}", weights[f"model.layers.{layer}.{other}.weight"]


CASES = {
    "gpt2": ({"n_positions": 12, "n_embd": H, "n_layer": 2, "n_head": HEADS}, GPT2, {}),
    "llama": ({}, LLAMA, {}),
    "llama, grouped": (
        {"num_key_value_heads": 2},
        LLAMA,
        {"backbone.key_value_heads": 2, "head.tied": False},
    ),
}
OF_LLAMA = {
    "hidden_size": H,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": HEADS,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500.0},
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_it_is_the_model_of_another_library(name):
    """As many parameters, and with the same values, the same logits."""
    settings, ours, more = CASES[name]
    kind = name[:5].rstrip(",")
    other = theirs(kind, **(settings if kind == "gpt2" else {**OF_LLAMA, **settings}))
    model = model_of(**ours, **more).double()
    copied = dict((gpt2_weights if kind == "gpt2" else llama_weights)(other.state_dict()))
    model.load_state_dict({name: value.contiguous() for name, value in copied.items()})
    with torch.no_grad():
        expected = other(IDS.t()).logits.log_softmax(-1).transpose(0, 1).flatten(0, 1)
        actual = log_probs(model(IDS, model.initial_state(B)).mixture)
    near = 1e-9 if kind == "gpt2" else 1e-5  # its Llama has norms and angles in float32
    torch.testing.assert_close(actual, expected, atol=near, rtol=near)
    number = sum(parameter.numel() for parameter in other.parameters())
    assert count_parameters(resolve({**SMALL, **ours, **more}), V) == number


def plain_attention(part, x, base, table=None):
    """Head by head, step by step; positions by complex numbers."""
    heads, size = part.heads, part.heads.size
    normed = (lambda v: v / (v.pow(2).mean() + heads.epsilon).sqrt()) if heads.qk_norm else None

    def vector(name, t, b, head):
        rows = slice(head * size, (head + 1) * size)
        v = getattr(part, name)[rows] @ x[t, b] + getattr(part, f"{name}_bias")[rows]
        if name == "value":
            return v if table is None else v + table[IDS[t, b]][rows]
        v = v if normed is None else normed(v)
        angles = t * base ** (-2 * torch.arange(size // 2).double() / size)
        z = torch.complex(*v.chunk(2)) * torch.polar(torch.ones_like(angles), angles)
        return torch.cat((z.real, z.imag))

    out = torch.empty_like(x)
    for b in range(x.shape[1]):
        for t in range(len(x)):
            seen, means = range(0 if not heads.window else max(0, t + 1 - heads.window), t + 1), []
            for head in range(heads.heads):
                group = head * heads.groups // heads.heads
                scores = torch.stack(
                    [vector("query", t, b, head) @ vector("key", s, b, group) for s in seen]
                )
                scores = scores / math.sqrt(size)
                if heads.soft_cap:
                    scores = heads.soft_cap * (scores / heads.soft_cap).tanh()
                values = torch.stack([vector("value", s, b, group) for s in seen])
                means.append(scores.softmax(0) @ values)
            out[t, b] = part.out @ torch.cat(means) + part.out_bias
    return out


@pytest.mark.parametrize(
    "settings",
    [
        {"key_value_heads": 2, "windows": 3, "qk_norm": True, "value_embeddings": (1, 2)},
        {"key_value_heads": 1, "windows": 3, "soft_cap": 0.7},
        {"soft_cap": 0.7, "qk_norm": True},
    ],
    ids=lambda settings: ", ".join(settings),
)
@torch.no_grad()
def test_attention_is_a_loop_over_heads_and_steps(settings):
    backbone, x = backbone_of(biases=True, rotary_base=50.0, **settings)
    part = backbone.blocks[0].attention
    table = backbone.values["1"].weight if "1" in backbone.values else None
    added = None if table is None else table[IDS]
    actual = part(x, _attention.rotary_turns(T, H // HEADS, 50.0, x), added)
    torch.testing.assert_close(actual, plain_attention(part, x, 50.0, table))


@pytest.mark.parametrize(
    ("kind", "formula"),
    [
        ("gelu", lambda x, gate: x * (1 + torch.erf(x / math.sqrt(2))) / 2),
        ("relu_squared", lambda x, gate: torch.where(x > 0, x**2, 0)),
        ("swiglu", lambda x, gate: x * gate / (1 + (-gate).exp())),
    ],
)
def test_a_feed_forward_layer_is_its_formula(kind, formula):
    backbone, x = backbone_of(feed_forward=kind, biases=True)
    layer = backbone.blocks[0].feed_forward
    gate = x @ layer.gate.t() + layer.gate_bias if kind == "swiglu" else None
    inner = formula(x @ layer.inner.t() + layer.inner_bias, gate)
    assert inner.shape[-1] == (43 if kind == "swiglu" else 64)  # 8/3 or 4 times 16
    torch.testing.assert_close(layer(x), inner @ layer.out.t() + layer.out_bias)


@pytest.mark.parametrize("kind", ["layer", "rms"])
def test_norms_are_their_formulas_and_may_have_no_parameters(kind):
    x = torch.randn(3, 5).double()
    centered = x - x.mean(1, keepdim=True) if kind == "layer" else x
    expected = centered / (centered.pow(2).mean(1, keepdim=True) + 0.1).sqrt()
    plain = _block.Norm(kind, 5, 0.1, scale=False, bias=True)
    assert not list(plain.parameters())
    torch.testing.assert_close(plain(x), expected)
    scaled = _block.Norm(kind, 5, 0.1, scale=True, bias=True).double()
    for parameter in scaled.parameters():
        parameter.data.normal_()
    shift = scaled.bias if kind == "layer" else 0
    torch.testing.assert_close(scaled(x), expected * scaled.scale + shift)


def test_a_layer_adds_to_the_stream_and_the_norms_at_its_ends_are_optional():
    backbone, x = backbone_of(input_norm=True, positions="none", num_layers=1)
    block = backbone.blocks[0]
    stream = backbone.first(x)
    stream = stream + block.attention(block.attention_norm(stream))
    stream = stream + block.feed_forward(block.feed_forward_norm(stream))
    torch.testing.assert_close(run(backbone, x)[0], backbone.last(stream))
    backbone.last = None
    torch.testing.assert_close(run(backbone, x)[0], stream)
    assert backbone_of(final_norm=False)[0].last is None


def test_dropout_acts_on_what_is_added():
    backbone, x = backbone_of(dropout=0.5)
    masks = Masks((), Chance(Streams(1), 0))
    dropped, again = run(backbone, x, masks)[-1], run(backbone, x, masks)[-1]
    assert torch.equal(dropped, again)
    assert not torch.allclose(dropped, run(backbone, x)[-1])
    ones = backbone.blocks[0].attention(backbone.blocks[0].attention_norm(x))
    mask = masks.chance.keep("transformer/1/attention", x.shape, 0.5, x)
    assert 0 < (mask == 0).double().mean() < 1
    block = backbone.blocks[0]
    stream = x + mask * ones
    fed = block.feed_forward(block.feed_forward_norm(stream))
    stream = stream + masks.chance.keep("transformer/1/feed_forward", x.shape, 0.5, x) * fed
    torch.testing.assert_close(block(x, None, None, (masks, "transformer/1", 0.5)), stream)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"units": 8}, "embedding.size = 16. Instead: the same"),
        ({"heads": 3}, "heads = 3 does not divide backbone.units = 16"),
        ({"key_value_heads": 3}, "key_value_heads = 3 does not divide backbone.heads = 4"),
        ({"heads": 16}, "pairs of units, and a head has 1:"),
        ({"windows": [1, 2, 3]}, "windows has 3 numbers"),
        ({"value_embeddings": [3]}, "names a layer twice, or one that is not there"),
        ({"value_embeddings": [1, 1]}, "names a layer twice"),
    ],
)
def test_contradictions_are_refused(settings, message):
    with pytest.raises(CombinationError) as refused:
        model_of(**{f"backbone.{name}": value for name, value in settings.items()})
    assert message in str(refused.value)


def test_a_window_longer_than_the_table_is_refused():
    backbone, x = backbone_of(positions="learned", context=T - 1)
    with pytest.raises(CombinationError, match=r"a window of 7 steps, and backbone\.context = 6"):
        run(backbone, x)


def recipe(name, column=None, **changes):
    return resolve({**space.load(name).values(column), **changes})


@pytest.mark.parametrize(
    ("name", "column", "words", "number"),
    [
        ("radford2019gpt2", "small", 50_257, 124_439_808),
        ("radford2019gpt2", "medium", 50_257, 354_823_168),
        ("radford2019gpt2", "large", 50_257, 774_030_080),
        ("radford2019gpt2", "xl", 50_257, 1_557_611_200),
        ("touvron2023llama", "7b", 32_000, 6_738_415_616),
        ("touvron2023llama", "13b", 32_000, 13_015_864_320),
        ("touvron2023llama", "33b", 32_000, 32_528_943_616),
        ("touvron2023llama", "65b", 32_000, 65_285_660_672),
        ("karpathy2025nanochat", None, 65_536, 560_988_160),
    ],
)
def test_a_recipe_has_the_parameters_of_its_published_weights(name, column, words, number):
    assert count_parameters(recipe(name, column), words) == number


def test_nanochat_starts_and_steps_as_its_code_does():
    """gpt.py: matrices have the deviation 1/sqrt(inputs), word vectors 1; rates are those of 768
    units, times (1280 / 768)^-1/2."""
    config = recipe("karpathy2025nanochat", **{"backbone.num_layers": 1})
    model = assemble(config, V).model
    model.initialize(Streams(1))
    deviations = {n: p.std().item() for n, p in model.named_parameters() if p.shape[1:] == (1280,)}
    assert deviations.pop("embedding.weight") == pytest.approx(1, rel=0.02)
    above_0 = {name: each for name, each in deviations.items() if each}
    assert len(above_0) >= 2 and deviations["head.decoder.weight"] == 0
    assert [*above_0.values()] == pytest.approx([1280**-0.5] * len(above_0), rel=0.01)
    optimizer = config["optimizer"].make(model)
    names = {p: name for name, p in model.named_parameters()}
    groups = optimizer.torch.param_groups
    rates = {names[p]: g["rate_scale"] * optimizer.rate for g in groups for p in g["params"]}
    scale = (1280 / 768) ** -0.5
    assert rates.pop("embedding.weight") == pytest.approx(0.2 * scale, rel=1e-4)
    assert rates.pop("head.decoder.weight") == pytest.approx(0.004 * scale, rel=1e-4)
    assert {*rates.values()} == {0.02}
