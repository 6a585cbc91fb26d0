"""Connections over HTTP as the environment wants them: through its proxy, with its certificates."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

if TYPE_CHECKING:
    from urllib3 import PoolManager


def http_pool(url: str, **options: Any) -> PoolManager:
    """Return a pool of connections to the server of an address; none is opened yet.

    Certificates are checked against the system's, or against what `SSL_CERT_FILE` names.

    Args:
        url: The address.
        options: Of urllib3's `PoolManager`.
    """
    import urllib3

    address = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(address.scheme) or proxies.get("all", "")
    if not proxy or proxy_bypass(address.hostname or ""):
        return urllib3.PoolManager(**options)
    parsed = urllib3.util.parse_url(proxy if "://" in proxy else f"http://{proxy}")
    auth = unquote(parsed.auth or "")
    headers = urllib3.make_headers(proxy_basic_auth=auth) if auth else None
    return urllib3.ProxyManager(parsed.url, proxy_headers=headers, **options)
