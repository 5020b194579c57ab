import { createHash } from 'node:crypto'
import QRCode from 'qrcode'
import {
  paymentUri,
  SUGGESTED,
  withBonus,
  type FundStatus,
  type FundView,
  type Page,
} from '../core/funding.ts'
import { toUsdc, type Micros } from '../core/money.ts'
import { DEPOSIT_WORDS, SCRIPT, TIER_WORDS } from './fund-script.ts'
import { STYLE } from './fund-style.ts'

const hashOf = (text: string) =>
  `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`

/** Nothing but what is written here runs or is drawn, and only this service is asked. */
const POLICY = [
  "default-src 'none'",
  `style-src ${hashOf(STYLE)}`,
  `script-src ${hashOf(SCRIPT)}`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escape = (text: string): string => text.replace(/[&<>"']/g, (sign) => ENTITIES[sign] ?? '')

/** The page on which people fund an agent: address, code and amounts, without anything from outside. */
export async function fundPage(view: FundView): Promise<Page> {
  const { address, agentId } = view
  const title = `Fund ${view.name}`
  const main = `<main data-status="/fund/${escape(agentId)}/status" data-address="${escape(address ?? '')}">
<h1>Fund ${escape(view.name)}</h1>
<p class="dim small">Agent <code>${escape(agentId)}</code></p>
${noticeOf(view)}
<div class="grid">
${address === null ? '' : await payPart(view, address)}
${statusPart(view)}
${view.deposits === 'on' ? TERMS : ''}
</div>
</main>`
  return { html: documentOf(title, main, true), policy: POLICY }
}

/** The page of an agent that does not exist. */
export function noAgentPage(): Page {
  const main = `<main><h1>There is no such agent</h1>
<p>Nothing can be sent here. Check the link with whoever gave it to you.</p></main>`
  return { html: documentOf('No such agent', main, false), policy: POLICY }
}

const documentOf = (title: string, main: string, live: boolean): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex">
<title>${escape(title)}</title>
<link rel="icon" href="data:,">
<style>${STYLE}</style>
</head>
<body>
${main}
${live ? `<script>${SCRIPT}</script>` : ''}
</body>
</html>
`

const NOTICES = {
  on: '',
  off: 'This station does not watch the chain right now. Do not send anything: it would not be credited.',
  paused:
    'The wallet of this agent is being handed over to its owner. Do not send anything until a new address is shown.',
} as const

function noticeOf({ deposits }: FundView): string {
  const text = NOTICES[deposits]
  return text === '' ? '' : `<div class="note" role="status"><p>${text}</p></div>`
}

/** Without a watcher the address is shown, but nothing invites to pay to it. */
async function payPart(view: FundView, address: string): Promise<string> {
  const copyable = `<h2>Address on Base</h2>
<div class="address"><code id="address">${escape(address)}</code><button type="button" id="copy">Copy</button></div>`
  if (view.deposits !== 'on') return `<section class="card wide">${copyable}</section>`
  const amounts = [null, ...SUGGESTED]
  const codes = await Promise.all(amounts.map((amount, at) => codeOf(view, address, amount, at)))
  return `<section class="card wide">${copyable}
<p class="small dim">Send <b>USDC</b> on the <b>Base</b> network, and nothing else. Other tokens and other networks are not credited.</p></section>
<section class="card tall"><fieldset class="pick"><legend>Amount</legend>
${amounts.map(choiceOf).join('\n')}
${codes.join('\n')}
</fieldset></section>`
}

function choiceOf(amount: Micros | null, at: number): string {
  const text =
    amount === null
      ? '<b>Any amount</b><span class="small dim">1 USDC or more</span>'
      : `<b>${toUsdc(amount)} USDC</b><span class="small dim">${toUsdc(withBonus(amount))} if it is the first</span>`
  const checked = at === 0 ? ' checked' : ''
  return `<input type="radio" name="amount" id="a${at}"${checked}><label for="a${at}">${text}</label>`
}

async function codeOf(view: FundView, address: string, amount: Micros | null, at: number) {
  const uri = paymentUri(view, address, amount)
  const svg = await QRCode.toString(uri, { type: 'svg', margin: 3, errorCorrectionLevel: 'M' })
  const what = amount === null ? 'the address' : `${toUsdc(amount)} USDC`
  const drawn = svg.replace('<svg ', `<svg role="img" aria-label="QR code for ${what}" `)
  return `<div class="code c${at}">${drawn}<a class="open" href="${escape(uri)}">Open in a wallet</a></div>`
}

function statusPart(view: FundView): string {
  const { tier, deposit } = statusTexts(view)
  return `<section class="card"><h2>Status</h2><dl aria-live="polite">
<dt>Balance</dt><dd id="tier">${escape(tier)}</dd>
<dt>Last deposit</dt><dd id="deposit">${escape(deposit)}</dd>
<dt>Network</dt><dd>Base (chain id ${view.chainId})</dd>
<dt>Token</dt><dd>USDC <code class="small">${escape(view.token)}</code></dd>
</dl></section>`
}

const TERMS = `<section class="card"><h2>What happens then</h2><ul>
<li>A deposit is credited by itself after six confirmations, within a minute.</li>
<li>The first credited deposit brings 25&nbsp;% more, as promotional credits.</li>
<li>Amounts below 1 USDC wait until they come to 1 USDC together.</li>
<li>No ETH is needed in this wallet: the service pays the gas of whatever it moves.</li>
</ul></section>`

/** The same words as the script's, for what changes while the page is open. */
function statusTexts({ tier, lastDeposit }: FundStatus): { tier: string; deposit: string } {
  const at = lastDeposit?.at.toISOString().slice(0, 16).replace('T', ' ')
  const deposit =
    lastDeposit === null
      ? 'None yet'
      : `${DEPOSIT_WORDS[lastDeposit.state] ?? lastDeposit.state} (${at} UTC)`
  return { tier: TIER_WORDS[tier] ?? 'Not known', deposit }
}
