"""What keeps a code base on CUDA: a requirements file, a pip freeze, names in a line."""

from __future__ import annotations

import asyncio
import importlib.metadata

import pytest

from bot.answers.plan.porting import audit, cuda, normal, requirements, unread
from bot.cards.card import Tone
from bot.errors import WrongInput
from bot.grammar.line import understand
from bot.knowledge import load_knowledge
from bot.model.request import Request, User
from bot.settings.settings import read_settings
from bot.wiring.source import OfferedFiles
from tests.belonging import MEMBER
from tests.builders import NOON, ports_over

PACKAGES = load_knowledge().claims().packages
FILE = """# training
--index-url https://example.invalid/simple
-r other.txt
torch==2.5.1+cu124
jax[cuda12]==0.4.30
nvidia-cublas-cu12==12.4.5.8
flash_attn==2.7.0.post2  # fast
Flash.Attn>=2
numpy>=1.26 ; python_version >= "3.9"
-e git+https://github.com/x/apex.git#egg=apex
xformers @ https://example.invalid/xformers.whl

transformers==4.46.0
"""


def ask(line: str, surface: str = "terminal"):
    call = understand(line, NOON)
    return asyncio.run(
        cuda(
            ports_over(
                None, None, knowledge=load_knowledge(), files=OfferedFiles(read_settings({}))
            ),
            Request(line, User("u"), NOON, surface, MEMBER),
            **call.arguments,
        )
    )


def test_an_address_names_its_package_and_what_names_none_is_said():
    text = """-r other.txt
--extra-index-url https://packages.example/cu124
git+https://github.com/NVIDIA/apex.git
git+ssh://git@github.com/Dao-AILab/flash-attention@v2.7
https://example.invalid/wheels/torch-2.5.1+cu124-cp311-cp311-linux_x86_64.whl
"""
    found = requirements(text)
    assert [(x.name, x.cuda_build) for x in found] == [
        ("apex", False),
        ("flash-attention", False),
        ("torch", True),
    ]
    assert unread(text) == (
        "-r other.txt",
        "--extra-index-url https://packages.example/cu124",
    )


def test_a_requirements_file_is_read_as_pip_reads_it():
    names = [x.name for x in requirements(FILE)]
    assert names == [
        "torch",
        "jax",
        "nvidia-cublas-cu12",
        "flash-attn",
        "numpy",
        "apex",
        "xformers",
        "transformers",
    ]


def test_what_needs_cuda_is_found_with_a_reason_and_what_to_take_instead():
    found = {x.requirement.name: x for x in audit(requirements(FILE), PACKAGES, NOON.date())}
    assert set(found) == {"torch", "jax", "nvidia-cublas-cu12", "flash-attn", "apex", "xformers"}
    assert all(x.reason and x.instead and x.source for x in found.values())


def test_plain_torch_needs_no_cuda():
    assert audit(requirements("torch==2.5.1\nnumpy==1.26.0"), PACKAGES, NOON.date()) == ()


def test_a_real_pip_freeze_of_a_machine_without_gpus_is_clean():
    lines = [f"{x.metadata['Name']}=={x.version}" for x in importlib.metadata.distributions()]
    wanted = requirements("\n".join(lines))
    assert len(wanted) >= len(
        {normal(x.metadata["Name"]) for x in importlib.metadata.distributions()}
    )
    assert audit(wanted, PACKAGES, NOON.date()) == ()


@pytest.mark.parametrize(
    "pasted",
    ["torch==2.5.1+cu124 flash-attn==2.7 numpy", "torch==2.5.1+cu124\nflash-attn==2.7\nnumpy"],
)
def test_what_is_pasted_in_chat_is_read(pasted):
    card = ask(f"/trn cuda {pasted}", "slack")
    assert card.title == "2 of 3 packages need CUDA"
    assert card.tone is Tone.WARNING


def test_a_file_is_read_in_a_terminal_alone(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text(FILE, encoding="utf-8")
    assert ask(f"cuda {path}").data["packages"] == 8
    with pytest.raises(WrongInput, match="read in a terminal"):
        ask(f"cuda {path}", "slack")
    with pytest.raises(WrongInput, match="cannot be read"):
        ask(f"cuda {path}.txt")


def test_nothing_is_asked_for_and_nonsense_is_told():
    assert ask("cuda").data["packages"] == 0
    with pytest.raises(WrongInput, match="No package"):
        ask('cuda "=== --"')


@pytest.mark.parametrize(
    ("line", "packages"),
    [
        ("cuda numpy pandas", 2),
        ("audit flash-attn numpy", 2),
        ("audit numpy==1.26", 1),
        ("audit numpy\npandas", 2),
        ("audit trail for november please", 0),
        ("Audit log of November!", 0),
        ("audit trail", 0),
        ("cuda does flash-attn need it", 0),
    ],
)
def test_names_alone_are_packages_unless_they_read_as_plain_words(line, packages):
    if packages:
        assert ask(line, "slack").data["packages"] == packages
        return
    with pytest.raises(WrongInput, match=r"No package was recognized in '.*pip freeze"):
        ask(line, "slack")


def test_a_file_of_names_alone_is_a_file_whatever_the_command_is_called(tmp_path):
    path = tmp_path / "requirements.txt"
    path.write_text("numpy", encoding="utf-8")
    assert ask(f"audit {path}").data["packages"] == 1
