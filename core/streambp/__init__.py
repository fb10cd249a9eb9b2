"""StreamBP: exact back-propagation through long sequences, one chunk of one layer at a time.

Luo, Li, Zhao, Li, "StreamBP", arXiv 2506.03077. The engine knows torch and transformers and nothing
of jobs. `attach` turns each decoder layer of a stock model into one streamed autograd node, and
`token_logps` gives the per-token log-probabilities that every objective is a function of.
"""

from core.streambp.attach import Attachment, LayerReport, attach
from core.streambp.errors import StreamError
from core.streambp.layout import Layout
from core.streambp.logps import token_logps

__all__ = ["Attachment", "LayerReport", "Layout", "StreamError", "attach", "token_logps"]
