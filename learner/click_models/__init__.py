"""Click models: how users browse, learned from logged lists."""

from learner.click_models.cm import CM
from learner.click_models.dcm import DCM
from learner.click_models.pbm import PBM
from learner.click_models.ubm import UBM

__all__ = ["CM", "DCM", "PBM", "UBM"]
