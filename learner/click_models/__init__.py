"""Click models: how users browse, learned from logged lists."""

from learner.click_models.ccm import CCM
from learner.click_models.cm import CM
from learner.click_models.dbn import DBN
from learner.click_models.dcm import DCM
from learner.click_models.given import GivenTable
from learner.click_models.model import ClickModel
from learner.click_models.pbm import PBM
from learner.click_models.sdbn import SDBN
from learner.click_models.ubm import UBM

CLICK_MODELS: dict[str, type[ClickModel]] = {
    kind.__name__.lower(): kind for kind in (CM, CCM, PBM, DCM, UBM, SDBN, DBN)
}
"""The click models by name, those with fewer numbers to say how users browse first. An entry makes one known."""

__all__ = ["CCM", "CLICK_MODELS", "CM", "DBN", "DCM", "PBM", "SDBN", "UBM", "ClickModel", "GivenTable"]
