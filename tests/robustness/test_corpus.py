"""What the fuzzer of saved fits has come upon, tried again."""

from pathlib import Path

from cuspfa.errors import CuspError
from cuspfa.estimator import load as saved
from robustness import fuzz_files

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


def test_corpus_of_changed_files(tmp_path, monkeypatch):
    assert len(CORPUS) > 20
    outcomes = []
    load = saved.load

    def counted(path):
        try:
            result = load(path)
        except CuspError:
            outcomes.append("refused")
            raise
        outcomes.append("read")
        return result

    monkeypatch.setattr(saved, "load", counted)
    for path in CORPUS:
        fuzz_files.one(path.read_bytes(), tmp_path)
    assert {"read", "refused"} == set(outcomes)  # changes go behind the checksums
