"""Name how the people of the tests belong."""

from bot.model.request import Belonging, Standing

MEMBER = Belonging("ours", Standing.MEMBER)
GUEST = Belonging("ours", Standing.GUEST)
STRANGER = Belonging("theirs", Standing.STRANGER)
