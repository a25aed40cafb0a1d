"""SearchGym: Gymnasium environments in which search agents are trained and compared.

``import searchgym as sg`` registers the catalogue's environments and stays light: every public name
below, those that plug-ins add (``sg.RulesAgent``), and every package such as ``sg.curricula``,
loads when it is first used.
"""

from __future__ import annotations

from .envs.registration import register_catalog
from .plugins import public_names
from .utils import attach

__getattr__, __dir__, __all__ = attach(__name__, others=public_names)

register_catalog()
