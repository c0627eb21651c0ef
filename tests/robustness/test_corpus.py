"""What the fuzzer of saved fits has come upon, tried again."""

from pathlib import Path

from cuspfa.errors import CuspError
from robustness import fuzz_files

CORPUS = sorted((Path(__file__).parent / "corpus").iterdir())


def test_corpus_of_changed_files(tmp_path, monkeypatch):
    assert len(CORPUS) > 20
    outcomes = []
    load = fuzz_files.files.load

    def counted(path):
        try:
            result = load(path)
        except CuspError:
            outcomes.append("refused")
            raise
        outcomes.append("read")
        return result

    monkeypatch.setattr(fuzz_files.files, "load", counted)
    for path in CORPUS:
        fuzz_files.one(path.read_bytes(), tmp_path)
    assert {"read", "refused"} == set(outcomes)  # changes go behind the checksums
