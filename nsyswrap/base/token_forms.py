"""Secrets that are known by their letters alone: tokens of well-known services, private keys, secret addresses.

No library serves. ``detect-secrets`` 1.5.0 knows the tokens of some 20 services. Its other half, a search for words of
much entropy, finds a secret in each of the 953 kernel names of our tests: such a name looks as random as a key, so
entropy decides nothing here. It takes 0.1 s to import, 1 ms a text, and needs requests and PyYAML. The rules of
``gitleaks`` are the configuration of a program in Go. So the forms are written here, from what the services publish.

Source:
    The documentation of each service; https://github.com/gitleaks/gitleaks, config/gitleaks.toml, names many of them.
"""

import re
from collections.abc import Mapping

_A = r"[A-Za-z0-9]"
_H = r"[0-9a-fA-F]"
_W = r"[\w-]"
# Names of a program may begin like these tokens, so that the rest must look random.
_MIXED = rf"(?={_W}{{0,40}}\d)(?={_W}{{0,40}}[a-z])(?={_W}{{0,40}}[A-Z])"
_DIGIT = rf"(?={_W}{{0,60}}\d)"

FORMS: Mapping[str, str] = {
    "1Password": rf"A3-[A-Z0-9]{{6}}-[A-Z0-9-]{{20,}}|ops_eyJ{_W}{{20,}}",
    "age": r"AGE-SECRET-KEY-1[0-9A-Z]{58}",
    "Airtable": rf"pat{_A}{{14}}\.{_H}{{64}}",
    "Alibaba Cloud": rf"LTAI{_A}{{12,20}}",
    "Artifactory": rf"AKCp{_A}{{60,}}|cmVmd{_A}{{59}}",
    "Atlassian": rf"AT[AC]TT3{_W}{{40,}}(?:={_H}+)?|ATBB{_A}{{24,}}",
    "AWS": r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|ABSK[A-Za-z0-9+/]{60,}=*",
    "Azure": r"[\w~.]{3}\dQ~[\w~.-]{31,34}|[A-Za-z0-9+/]{86}==",
    "Braintree": rf"access_token\$\w+\${_A}{{16}}\${_H}{{32}}",
    "Brevo": rf"xkeysib-{_W}{{40,}}",
    "Buildkite": rf"bk(?:ua|at)_{_H}{{40}}",
    "Cerebras": r"csk-[a-z0-9]{40,}",
    "CircleCI": rf"CCI(?:PAT|PRJ)_{_A}{{20,}}_{_H}{{40}}",
    "Clojars": rf"CLOJARS_{_A}{{60}}",
    "Databricks": rf"dapi{_H}{{32}}(?:-\d)?",
    "DigitalOcean": rf"do[opr]_v1_{_H}{{64}}",
    "Discord": rf"[MNO]{_MIXED}{_W}{{23,25}}\.{_W}{{6}}\.{_MIXED}(?:{_W}{{38}}|{_W}{{27}})(?!{_W})",
    "Docker": rf"dckr_[a-z]+_{_W}{{20,}}",
    "Doppler": rf"dp\.[a-z]{{2,6}}\.{_A}{{40,}}",
    "Duffel": rf"duffel_(?:live|test)_{_W}{{40,}}",
    "Dynatrace": r"dt0[a-z]\d\d\.[A-Z0-9]{20,}\.\w{40,}",
    "EasyPost": rf"EZ[AT]K{_A}{{54}}",
    "Figma": rf"figd_{_W}{{36,}}",
    "Flutterwave": rf"FLWSECK(?:_TEST)?-{_W}{{12,}}",
    "Fly": rf"fo1_{_W}{{43}}(?!{_W})|fm[12][ar]?_[A-Za-z0-9+/]{{40,}}=*",
    "Frame.io": rf"fio-u-{_W}{{60,}}",
    "GitHub": r"gh[pousr]_\w{36,}|github_pat_\w{22,}",
    "GitLab": rf"gl(?:agent|cbt|dt|ffct|ft|imt|oas|pat|ptt|rt|rtr|soat)-{_W}{{20,}}|GR1348941{_W}{{20,}}",
    "Google": rf"AIza{_W}{{35}}|GOCSPX-{_W}{{20,}}|ya29\.{_W}{{20,}}",
    "Grafana": rf"glsa_{_A}{{32}}_{_H}{{8}}|glc_[A-Za-z0-9+/]{{32,}}=*",
    "Groq": rf"gsk_{_A}{{40,}}",
    "Heroku": rf"HRKU-{_W}{{36,}}",
    "Hugging Face": rf"hf_{_A}{{30,}}|api_org_{_A}{{30,}}",
    "Jina": rf"jina_{_A}{{40,}}",
    "JSON web token": r"eyJ[\w-]{10,4000}\.[\w-]+\.?[\w-]*",
    "Kaggle": rf"KGAT_{_A}{{20,}}",
    "LangSmith": r"lsv2_(?:pt|sk)_\w{32,}",
    "LaunchDarkly": rf"(?:sdk|mob|api)-{_H}{{8}}-(?:{_H}{{4}}-){{3}}{_H}{{12}}",
    "Linear": rf"lin_(?:api|oauth)_{_A}{{40,}}",
    "Mailchimp": rf"{_H}{{32}}-us\d{{1,2}}",
    "MailerSend": rf"mlsn\.{_H}{{40,}}",
    "Mailgun": rf"key-{_H}{{32}}",
    "Modal": rf"a[ks]-{_MIXED}{_A}{{22}}",
    "Neptune": r"eyJ[\w+/-]{60,}=*",
    "New Relic": rf"NR(?:AK|AA|II|IQ|JS|RA)-{_A}{{19,}}",
    "Notion": rf"ntn_{_A}{{40,}}|secret_{_A}{{43}}",
    "npm": rf"npm_{_A}{{36}}",
    "NuGet": r"oy2[a-z0-9]{43}",
    "NVIDIA": rf"nvapi-{_W}{{40,}}",
    "OpenAI, Anthropic and others": rf"sk-(?:{_A}{{20,}}|{_DIGIT}{_W}{{20,}})",
    "OpenShift": rf"sha256~{_W}{{43}}",
    "Perplexity": rf"pplx-{_A}{{32,}}",
    "Pinecone": r"pcsk_\w{40,}",
    "Plaid": rf"access-(?:sandbox|development|production)-{_H}{{8}}-[0-9a-f-]{{27}}",
    "PlanetScale": r"pscale_[a-z]+_[\w=.-]{32,}",
    "PostHog": rf"ph[cx]_{_A}{{40,}}",
    "Postman": rf"PMAK-{_H}{{24}}-{_H}{{34}}",
    "Prefect": rf"pn[ub]_{_A}{{36}}",
    "Pulumi": rf"pul-{_H}{{40}}",
    "PyPI": rf"pypi-{_W}{{50,}}",
    "ReadMe": r"rdme_[a-z0-9]{70}",
    "Replicate": rf"r8_{_A}{{36,}}",
    "RubyGems": rf"rubygems_{_H}{{48}}",
    "RunPod": rf"rpa_{_A}{{36,}}",
    "SendGrid": rf"SG\.{_W}{{16,}}\.{_W}{{16,}}",
    "Sentry": r"sntr(?:ys|yu)_[\w+/]{40,}=*",
    "Shippo": rf"shippo_(?:live|test)_{_H}{{40}}",
    "Shopify": rf"shp(?:at|ca|pa|ss)_{_H}{{32}}",
    "Slack": rf"xox[a-z]-{_W}{{10,}}|xoxe\.xox[a-z]-{_W}{{10,}}|xapp-\d-{_W}{{10,}}",
    "Sourcegraph": rf"sgp_(?:{_A}+_)?{_H}{{40}}",
    "Square": rf"sq0[a-z]{{3}}-{_W}{{22,}}|EAAA{_W}{{50,}}",
    "Stripe": rf"[srp]k_(?:live|test|prod)_{_A}{{10,}}|whsec_[A-Za-z0-9+/]{{24,}}=*",
    "Supabase": rf"sbp_{_H}{{40}}|sb_secret_{_W}{{20,}}",
    "Tailscale": rf"tskey-[a-z]+-{_W}{{16,}}",
    "Tavily": rf"tvly-{_W}{{24,}}",
    "Telegram": rf"\d{{8,10}}:AA{_W}{{33}}",
    "Terraform": rf"{_A}{{14}}\.atlasv1\.[\w=-]{{40,}}",
    "Together": rf"tgp_v1_{_W}{{30,}}",
    "Twilio": rf"SK{_H}{{32}}",
    "Typeform": rf"tfp_{_W}{{40,}}",
    "Vault": rf"hv[sbr]\.{_DIGIT}{_W}{{20,}}",
    "Weights & Biases": r"wandb_v1_\w{30,}",
    "xAI": rf"xai-{_A}{{40,}}",
}  # fmt: skip
"""The form of each service's tokens, as a regular expression."""

_TOKEN = re.compile(rf"(?<![A-Za-z0-9])(?:{'|'.join(FORMS.values())})", re.ASCII)
# Whoever knows one of these addresses can send messages, without a login.
_HOOK = re.compile(
    r"(hooks\.slack\.com/\w+/|discord(?:app)?\.com/api/webhooks/|webhook\.office\.com/\w+/|api\.telegram\.org/bot)"
    r"[^\s'\"*][^\s'\"]*"
)
_PRIVATE_KEY = re.compile(
    r"-----BEGIN[ A-Z0-9]* PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END[ A-Z0-9]*-----|\Z)", re.DOTALL
)
# Each of them holds a word of so many letters.
_LONG_WORD = re.compile(r"[\w~.$:/+=-]{14}|PRIVATE KEY", re.ASCII)


def without_tokens(text: str, by: str) -> str:
    """Return a text whose tokens, private keys and secret addresses are replaced. Names of kernels have none."""
    if not _LONG_WORD.search(text):
        return text
    return _TOKEN.sub(by, _HOOK.sub(rf"\1{by}", _PRIVATE_KEY.sub(by, text)))
