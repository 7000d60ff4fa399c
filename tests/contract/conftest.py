"""Makes the asserts of the shared suite tell what they saw, as those of test modules do."""

import pytest

pytest.register_assert_rewrite(*(f"tests.contract.range_store_{part}" for part in ("suite", "races", "reads")))
