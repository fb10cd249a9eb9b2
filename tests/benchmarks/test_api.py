"""The API under a little load: every figure is there, and no answer is wrong."""

import pytest

from benchmarks.api.__main__ import SHORT, measure


@pytest.mark.slow
def test_a_little_load_has_all_figures_and_no_error(tmp_path):
    report = measure(tmp_path, SHORT)
    assert report["errors"] == 0, report["first_errors"]
    for part in ("", "_calm"):
        assert 0 < report[f"p50{part}_ms"] <= report[f"p99{part}_ms"]
    assert report["requests"] > SHORT.clients
    for name in ("upload_mb_s", "download_mb_s", "range_download_mb_s", "static_mb_s"):
        assert report[name] > 0
    assert report["download_ratio_vs_static"] > 0
    assert report["api_rss_mb_peak"] >= report["api_rss_mb_calm"] > 0
