"""StreamBP: exact back-propagation through long sequences, one chunk of one layer at a time.

Luo, Li, Zhao, Li, "StreamBP", arXiv 2506.03077. The engine knows torch and transformers and nothing
of jobs. `attach` turns each decoder layer of a stock model into one streamed autograd node;
`token_logps` and `answer_logps` give the per-token log-probabilities that every objective is a
function of; `backward_linear` is the shorter way where the objective is linear in them.
"""

from core.streambp.attach import Attachment, LayerReport, attach, attachment_of, unstreamed
from core.streambp.errors import StreamError
from core.streambp.layout import Layout, Shared
from core.streambp.logps import answer_logps, backward_linear, token_logps

__all__ = [
    "Attachment",
    "LayerReport",
    "Layout",
    "Shared",
    "StreamError",
    "answer_logps",
    "attach",
    "attachment_of",
    "backward_linear",
    "token_logps",
    "unstreamed",
]
