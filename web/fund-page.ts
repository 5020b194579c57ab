import { createHash } from 'node:crypto'
import QRCode from 'qrcode'
import {
  toEip681Uri,
  SUGGESTED_DEPOSITS,
  addFirstDepositBonus,
  type FundingStatus,
  type FundingPageData,
  type LastConfirmedDeposit,
  type HtmlPage,
} from '../domain/funding-status.ts'
import { grantCliCommand } from '../core/grant-cli-command.ts'
import { LIMITS } from '../core/limits.ts'
import { toUsdc, ZERO, type Micros } from '../core/money.ts'
import { MIN_DEPOSIT } from '../domain/pricing.ts'
import { FUND_PAGE_SCRIPT } from './fund-page-script.ts'
import { FUND_PAGE_CSS } from './fund-page-style.ts'

/** Renders the public funding page of an agent. */

const cspHashOf = (text: string) =>
  `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`

/** Allows only the inlined script and styles, and requests to this service. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src ${cspHashOf(FUND_PAGE_CSS)}`,
  `script-src ${cspHashOf(FUND_PAGE_SCRIPT)}`,
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const HTML_ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}
const escapeHtml = (text: string): string =>
  text.replace(/[&<>"']/g, (sign) => HTML_ENTITIES[sign] ?? '')

/** Renders the page on which people fund an agent, without external assets. */
export async function renderFundPage(view: FundingPageData): Promise<HtmlPage> {
  const { address, agentId } = view
  const title = `Fund ${view.name}`
  const main = `<main data-status="/fund/${escapeHtml(agentId)}/status" data-shown="${escapeHtml(view.deposits === 'on' ? `on ${address ?? ''}` : view.deposits)}">
<h1>Fund ${escapeHtml(view.name)}</h1>
<p class="dim small">Agent <code>${escapeHtml(agentId)}</code></p>
${renderNotice(view)}
<div class="grid">
${address === null || view.deposits !== 'on' ? '' : await renderPaymentSection(view, address)}
${renderStatusSection(view)}
${view.deposits === 'on' ? renderTermsSection(view) : ''}
</div>
</main>`
  return { html: renderDocument(title, main, true), contentSecurityPolicy: CONTENT_SECURITY_POLICY }
}

/** Renders the page for an unknown agent. */
export function renderAgentNotFoundPage(): HtmlPage {
  const main = `<main><h1>There is no such agent</h1>
<p>Nothing can be sent here. Check the link with whoever gave it to you.</p></main>`
  return {
    html: renderDocument('No such agent', main, false),
    contentSecurityPolicy: CONTENT_SECURITY_POLICY,
  }
}

const renderDocument = (title: string, main: string, live: boolean): string =>
  `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<link rel="icon" href="data:,">
<style>${FUND_PAGE_CSS}</style>
</head>
<body>
${main}
${live ? `<script>${FUND_PAGE_SCRIPT}</script>` : ''}
</body>
</html>
`

const PAUSED_NOTICE =
  'The wallet of this agent is being handed over to its owner. Do not send anything until a new address is shown.'

function renderNotice({ deposits, agentId }: FundingPageData): string {
  if (deposits === 'on') return ''
  const text =
    deposits === 'paused'
      ? PAUSED_NOTICE
      : `This station takes no deposits. Do not send anything: it would not be credited. Its operator can give this agent credits: <code>${escapeHtml(grantCliCommand(agentId))}</code>`
  return `<div class="note" role="status"><p>${text}</p></div>`
}

async function renderPaymentSection(view: FundingPageData, address: string): Promise<string> {
  const amounts = [null, ...SUGGESTED_DEPOSITS]
  const codes = await Promise.all(
    amounts.map((amount, at) => renderQrCode(view, address, amount, at)),
  )
  return `<section class="card wide"><h2>Address on Base</h2>
<div class="address"><code id="address">${escapeHtml(address)}</code><button type="button" id="copy">Copy</button></div>
<p class="small dim">Send <b>USDC</b> on the <b>Base</b> network, and nothing else. Other tokens and other networks are not credited.</p></section>
<section class="card tall"><fieldset class="pick"><legend>Amount</legend>
${amounts.map((amount, at) => renderAmountOption(view, amount, at)).join('\n')}
${codes.join('\n')}
</fieldset></section>`
}

function renderAmountOption(
  { bonusAhead }: FundingPageData,
  amount: Micros | null,
  at: number,
): string {
  const checked = at === 0 ? ' checked' : ''
  return `<input type="radio" name="amount" id="a${at}"${checked}><label for="a${at}">${renderAmountLabel(amount, bonusAhead)}</label>`
}

function renderAmountLabel(amount: Micros | null, bonusAhead: boolean): string {
  if (amount === null)
    return `<b>Any amount</b><span class="small dim">${toUsdc(MIN_DEPOSIT)} USDC or more</span>`
  const bonus = bonusAhead
    ? `<span class="small dim">${toUsdc(addFirstDepositBonus(amount))} with the bonus</span>`
    : ''
  return `<b>${toUsdc(amount)} USDC</b>${bonus}`
}

async function renderQrCode(
  view: FundingPageData,
  address: string,
  amount: Micros | null,
  at: number,
) {
  const uri = toEip681Uri(view, address, amount)
  const svg = await QRCode.toString(uri, { type: 'svg', margin: 3, errorCorrectionLevel: 'M' })
  const what = amount === null ? 'the address' : `${toUsdc(amount)} USDC`
  const drawn = svg.replace('<svg ', `<svg role="img" aria-label="QR code for ${what}" `)
  return `<div class="code c${at}">${drawn}<a class="open" href="${escapeHtml(uri)}">Open in a wallet</a></div>`
}

function renderStatusSection(view: FundingPageData): string {
  const { balance, deposits } = toFundStatusTexts(view)
  const chain =
    view.deposits === 'off'
      ? ''
      : `<dt>Deposits</dt><dd id="deposit" class="lines">${escapeHtml(deposits)}</dd>
<dt>Network</dt><dd>Base (chain id ${view.chainId})</dd>
<dt>Token</dt><dd>USDC <code class="small">${escapeHtml(view.token)}</code></dd>
`
  return `<section class="card"><h2>Status</h2><dl aria-live="polite">
<dt>Balance</dt><dd id="tier">${escapeHtml(balance)}</dd>
${chain}</dl></section>`
}

function renderTermsSection({ bonusAhead }: FundingPageData): string {
  const bonus = bonusAhead
    ? '\n<li>The first credited deposit brings 25&nbsp;% more, as promotional credits.</li>'
    : ''
  return `<section class="card"><h2>What happens then</h2><ul>
<li>A deposit is credited by itself after six confirmations, within a minute.</li>${bonus}
<li>Amounts below 1 USDC wait until they come to 1 USDC together.</li>
<li>No ETH is needed in this wallet: the service pays the gas of whatever it moves.</li>
</ul></section>`
}

const TIER_LABELS: Readonly<Record<string, string>> = {
  healthy: 'Good',
  warning: 'Low',
  critical: 'Very low',
  empty: 'Empty',
}

/** Returns the texts that change while the page is open: the balance level, and a line per deposit. */
export function toFundStatusTexts(status: FundingStatus): { balance: string; deposits: string } {
  const { tier, pending, incoming, lastDeposit } = status
  const lines = incoming.map(
    ({ amount, confirmations }) =>
      `${toUsdc(amount)} USDC seen, ${confirmations} of ${LIMITS.depositConfirmations} confirmations`,
  )
  if (pending > ZERO)
    lines.push(
      `${toUsdc(pending)} of ${toUsdc(MIN_DEPOSIT)} USDC: credited when the sum reaches ${toUsdc(MIN_DEPOSIT)} USDC`,
    )
  const last = lastDeposit === null ? null : describeLastDeposit(lastDeposit)
  if (last !== null) lines.push(last)
  return {
    balance: TIER_LABELS[tier] ?? 'Not known',
    deposits: lines.length === 0 ? 'None yet' : lines.join('\n'),
  }
}

/** Returns null for a pending deposit: their sum has a line of its own. */
function describeLastDeposit({
  state,
  amount,
  tx,
  creditedAt,
}: LastConfirmedDeposit): string | null {
  if (state === 'reorged') return `${toUsdc(amount)} USDC undone by the chain, transaction ${tx}`
  if (creditedAt === null) return null
  const final = state === 'final' ? '' : ', not final on the chain yet'
  return `${toUsdc(amount)} USDC credited${final} (${formatMinute(creditedAt)}), transaction ${tx}`
}

const formatMinute = (at: Date): string => `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`
