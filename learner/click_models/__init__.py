"""Click models: how users browse, learned from logged lists."""

from learner.click_models.ccm import CCM
from learner.click_models.cm import CM
from learner.click_models.dbn import DBN
from learner.click_models.dcm import DCM
from learner.click_models.given import GivenTable
from learner.click_models.pbm import PBM
from learner.click_models.sdbn import SDBN
from learner.click_models.ubm import UBM

__all__ = ["CCM", "CM", "DBN", "DCM", "PBM", "SDBN", "UBM", "GivenTable"]
