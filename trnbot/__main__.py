"""Start trnbot by `python -m trnbot`."""

import sys

from trnbot import main

sys.exit(main())
