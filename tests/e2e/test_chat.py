"""The stock client talks to a base model, and to what was made of it."""

import pytest
from openai import BadRequestError

HELLO = [{"role": "user", "content": "Say something."}]


@pytest.fixture(scope="module")
def talkative(start_up):
    """A service with whom one can talk."""
    return start_up(CASTALIA_CHAT="true", CASTALIA_POLL_S="0.1", CASTALIA_SWEEP_S="0.5")


@pytest.fixture
def client(talkative):
    with talkative.client as client:
        yield client


@pytest.fixture
def train(client, talkative, rows_file, wait_for):
    """The name of the result of one step of training."""
    jobs = client.fine_tuning.jobs
    file = client.files.create(file=rows_file(8), purpose="fine-tune")

    def do(**trainer):
        settings = {"max_steps": 1, "canary": False, "learning_rate": 1e-2, **trainer}
        job = jobs.create(model="toy", training_file=file.id, extra_body={"trainer": settings})
        wait_for(lambda: jobs.retrieve(job.id).status == "succeeded", talkative)
        return jobs.retrieve(job.id).fine_tuned_model

    return do


def test_an_answer_is_the_same_whole_and_in_chunks(client):
    asked = {"model": "toy", "messages": HELLO, "max_tokens": 8, "seed": 5}
    whole = client.chat.completions.create(**asked)
    (choice,) = whole.choices
    assert whole.id.startswith("chatcmpl-")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens
    assert (whole.usage.completion_tokens, choice.finish_reason) == (8, "length")
    chunks = list(
        client.chat.completions.create(**asked, stream=True, stream_options={"include_usage": True})
    )
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    assert text == choice.message.content
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == "length"
    assert chunks[-1].usage == whole.usage
    assert {chunk.id for chunk in chunks} == {chunks[0].id}


def test_an_answer_ends_before_a_stop_text(client):
    asked = {"model": "toy", "messages": HELLO, "max_tokens": 20, "seed": 5}
    text = client.chat.completions.create(**asked).choices[0].message.content
    stopped = client.chat.completions.create(**asked, stop=text[3]).choices[0]
    assert stopped.message.content == text[: text.index(text[3])]
    assert stopped.finish_reason == "stop"


def test_a_conversation_beyond_the_context_is_refused(client):
    with pytest.raises(BadRequestError) as refused:
        client.chat.completions.create(model="toy", messages=HELLO, max_tokens=500)
    assert refused.value.code == "context_length_exceeded"
    long = [{"role": "user", "content": "x" * 600}]
    with pytest.raises(BadRequestError, match="512 in all"):
        client.chat.completions.create(model="toy", messages=long, stream=True)


@pytest.mark.parametrize("adapter", [{"kind": "none"}, {"kind": "lora", "rank": 4}])
def test_a_tuned_model_and_its_checkpoint_answer_alike_and_not_as_their_base(
    client, train, adapter
):
    name = train(adapter=adapter)

    def said(model):
        answer = client.chat.completions.create(
            model=model, messages=HELLO, max_tokens=40, temperature=1, seed=1
        )
        return answer.choices[0].message.content

    assert said(name) == said(f"{name}:ckpt-step-1") != said("toy")
