"""A row that is learnt from as it stands, a conversation, a document or ready tokens, as token ids."""

from core.data.chat import TrainOn, encode_chat
from core.data.conversation import ChatTokenizer
from core.data.encoded import Encoded
from core.data.kinds import Document, Tokens
from core.data.rows import ChatRow
from core.data.text import encode_document, encode_tokens


def encode_learnable(
    value: ChatRow | Document | Tokens, tokenizer: ChatTokenizer, *, train_on: TrainOn, line: int
) -> Encoded:
    """Token ids and what of them is trained; ``train_on`` is for conversations. Raises ChatTemplateError."""
    match value:
        case ChatRow():
            return encode_chat(value, tokenizer, train_on=train_on, line=line)
        case Document():
            return encode_document(value, tokenizer, line=line)
        case Tokens():
            return encode_tokens(value, line=line)
