"""Join every setting into one schema."""

from __future__ import annotations

from collections.abc import Mapping

from bot.errors import WrongInput, nearest
from bot.model.policy import Policy
from bot.policy.advice import ADVICE
from bot.policy.alerting import ALERTING
from bot.policy.detection import DETECTION
from bot.policy.setting import Setting

SETTINGS: Mapping[str, Setting] = {setting.key: setting for setting in (*DETECTION, *ALERTING, *ADVICE)}


def setting_of(key: str) -> Setting:
    """Return the setting; raise `WrongInput` with the nearest key."""
    if key not in SETTINGS:
        raise WrongInput(f"'{key}' is not a setting{nearest(key, SETTINGS, most=0)}.")
    return SETTINGS[key]


def default_policy() -> Policy:
    """Return every setting at its default."""
    return Policy({key: setting.default for key, setting in SETTINGS.items()})
