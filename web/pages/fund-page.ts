import {
  toEip681Uri,
  SUGGESTED_DEPOSITS,
  type PublicAgentFundingInfo,
  type FundingPageData,
  type AgentLastConfirmedDeposit,
} from '../../domain/agent-funding-info-and-instructions.ts'
import { grantCliCommandText } from '../../core/credit-grant-cli-command-text.ts'
import { LIMITS } from '../../core/limits.ts'
import { fromUsdc, toUsdc, ZERO_MICROS, type Micros } from '../../core/money.ts'
import { readTypedAmount } from '../../core/typed-amount.ts'
import { MIN_DEPOSIT } from '../../domain/pricing.ts'
import { Html, html } from '../html-template-tag.ts'
import { renderHtmlPage } from './page-layout.ts'

/** Renders the public funding page of an agent. */

const BASE_MAINNET = 8453
const EXPLORER = 'https://basescan.org/tx/'
const TRANSACTION = /(0x[0-9a-f]{64})/

/** Renders the page on which people fund an agent; `typed` is the amount that a visitor typed. */
export async function renderFundPage(view: FundingPageData, typed: string | null): Promise<string> {
  const { address, agentId, deposits } = view
  const isPayable = address !== null && deposits === 'on'
  return renderHtmlPage({
    title: `Fund ${view.name}`,
    scripts: ['fund.js'],
    mainData: {
      status: `/fund/${agentId}/status`,
      shown: deposits === 'on' ? `on ${address ?? ''}` : deposits,
      ...(view.chainId === BASE_MAINNET ? { explorer: EXPLORER } : {}),
    },
    main: html`<h1>Fund ${view.name}</h1>
      <p class="dim small">Agent <code>${agentId}</code></p>
      ${renderNotice(view)}
      <div class="columns">
        ${isPayable && (await renderPaymentSection(view, address, typed))}
        <div>
          ${isPayable && renderAddressSection(address)} ${renderStatusSection(view)}
          ${deposits === 'on' && renderTermsSection()}
        </div>
      </div>`,
  })
}

const PAUSED_NOTICE =
  'The wallet of this agent is being handed over to its owner. Do not send anything until a new address is shown.'

function renderNotice({ deposits, agentId }: FundingPageData): Html | null {
  if (deposits === 'on') return null
  const text =
    deposits === 'paused'
      ? html`${PAUSED_NOTICE}`
      : html`This station takes no deposits. Do not send anything: it would not be credited. Its
          operator can give this agent credits: <code>${grantCliCommandText(agentId)}</code>`
  return html`<div class="note" role="status"><p>${text}</p></div>`
}

const renderAddressSection = (address: string): Html =>
  html`<section class="card">
    <h2>Address on Base</h2>
    <div class="address copyable-line copyable">
      <code id="address">${address}</code><button type="button" hidden>Copy</button>
    </div>
    <p class="small dim">
      Send <b>USDC</b> on the <b>Base</b> network, and nothing else. Other tokens and other networks
      are not credited.
    </p>
  </section>`

/** Without a script: the amount that is chosen shows its button and its code. */
async function renderPaymentSection(
  view: FundingPageData,
  address: string,
  typed: string | null,
): Promise<Html> {
  const { amount: ownAmount, fault } = readOwnAmount(typed)
  const suggested = [null, ...SUGGESTED_DEPOSITS]
  const isOwn = ownAmount !== null && !suggested.includes(ownAmount)
  const amounts = isOwn ? [...suggested, ownAmount] : suggested
  const chosen = ownAmount === null ? 0 : amounts.indexOf(ownAmount)
  const codes = await Promise.all(
    amounts.map((amount, at) => renderQrCode(view, address, amount, at)),
  )
  return html`<section class="card">
    <fieldset class="pick">
      <legend>Amount</legend>
      ${amounts.map((amount, at) => renderAmountOption(amount, at, at === chosen))}
      ${amounts.map((amount, at) => renderWalletButton(view, address, amount, at))} ${codes}
    </fieldset>
    <form method="get" action="/fund/${view.agentId}" class="own">
      <label for="own">Another amount in USDC</label>
      <div class="row">
        <input
          id="own"
          name="amount"
          inputmode="decimal"
          autocomplete="off"
          maxlength="20"
          required
          value="${isOwn ? toUsdc(ownAmount) : fault === null ? '' : typed}"
          ${fault !== null && html` aria-invalid="true" aria-describedby="own-fault"`}
        /><button type="submit" class="quiet">Show</button>
      </div>
      ${fault !== null && html`<p class="fault" id="own-fault" role="alert">${typed} ${fault}.</p>`}
    </form>
  </section>`
}

/** The amount that a visitor typed, or why it is none. */
function readOwnAmount(typed: string | null): { amount: Micros | null; fault: string | null } {
  if (typed === null) return { amount: null, fault: null }
  const read = readTypedAmount(typed)
  if ('fault' in read) return { amount: null, fault: read.fault }
  const amount = fromUsdc(read.usdc)
  return amount > ZERO_MICROS ? { amount, fault: null } : { amount: null, fault: 'is nothing' }
}

function renderAmountOption(amount: Micros | null, at: number, isChosen: boolean): Html {
  return html`<input type="radio" name="amount" id="a${at}" ${isChosen && html` checked`} /><label
      for="a${at}"
      >${renderAmountLabel(amount)}</label
    > `
}

function renderAmountLabel(amount: Micros | null): Html {
  if (amount === null)
    return html`<b>Any amount</b><span class="small dim">${toUsdc(MIN_DEPOSIT)} USDC or more</span>`
  return html`<b>${toUsdc(amount)} USDC</b>`
}

const renderWalletButton = (
  view: FundingPageData,
  address: string,
  amount: Micros | null,
  at: number,
): Html =>
  html`<div class="pay open c${at}">
    <a class="button" href="${toEip681Uri(view, address, amount)}"
      >Open in a wallet${amount !== null && `: ${toUsdc(amount)} USDC`}</a
    >
  </div> `

async function renderQrCode(
  view: FundingPageData,
  address: string,
  amount: Micros | null,
  at: number,
): Promise<Html> {
  const { default: QRCode } = await import('qrcode')
  const uri = toEip681Uri(view, address, amount)
  const svg = await QRCode.toString(uri, { type: 'svg', margin: 3, errorCorrectionLevel: 'M' })
  const what = amount === null ? 'the address' : `${toUsdc(amount)} USDC`
  const drawn = svg.replace('<svg ', `<svg role="img" aria-label="QR code for ${what}" `)
  return html`<div class="pay c${at}">${new Html(drawn)}</div> `
}

function renderStatusSection(view: FundingPageData): Html {
  const { balance, deposits } = toFundStatusTexts(view)
  return html`<section class="card">
    <h2>Status</h2>
    <dl class="facts" aria-live="polite">
      <dt>Balance</dt>
      <dd id="tier">${balance}</dd>
      ${
        view.deposits !== 'off' &&
        html`<dt>Deposits</dt>
          <dd id="deposit" class="lines">${renderDepositLines(deposits, view)}</dd>
          <dt>Network</dt>
          <dd>Base (chain id ${view.chainId})</dd>
          <dt>Token</dt>
          <dd>USDC <code class="small">${view.token}</code></dd> `
      }
    </dl>
  </section>`
}

/** Transactions are links to the explorer of the chain. */
const renderDepositLines = (text: string, { chainId }: FundingPageData): Html[] =>
  text
    .split(TRANSACTION)
    .map((part) =>
      chainId === BASE_MAINNET && TRANSACTION.test(part)
        ? html`<a href="${EXPLORER}${part}" rel="noreferrer">${part}</a>`
        : html`${part}`,
    )

const renderTermsSection = (): Html =>
  html`<section class="card">
    <h2>After the transfer</h2>
    <ul>
      <li>A deposit is credited automatically after six confirmations, within a minute.</li>
      <li>The first deposit of an owner brings 25 % more, as promotional credits, while those of the day last.</li>
      <li>Amounts below 1 USDC are credited when their sum reaches 1 USDC.</li>
      <li>No ETH is needed in this wallet: the service pays the gas of every transfer.</li>
    </ul>
  </section>`

const TIER_LABELS: Readonly<Record<string, string>> = {
  healthy: 'Good',
  warning: 'Low',
  critical: 'Very low',
  empty: 'Empty',
}

/** Returns the texts that change while the page is open: the balance level, and a line per deposit. */
export function toFundStatusTexts(status: PublicAgentFundingInfo): {
  balance: string
  deposits: string
} {
  const { tier, pending, incoming, lastDeposit } = status
  const lines = incoming.map(
    ({ amount, confirmations }) =>
      `${toUsdc(amount)} USDC seen, ${confirmations} of ${LIMITS.depositConfirmations} confirmations`,
  )
  if (pending > ZERO_MICROS)
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
}: AgentLastConfirmedDeposit): string | null {
  if (state === 'reorged') return `${toUsdc(amount)} USDC undone by the chain, transaction ${tx}`
  if (creditedAt === null) return null
  const final = state === 'final' ? '' : ', not final on the chain yet'
  return `${toUsdc(amount)} USDC credited${final} (${formatMinute(creditedAt)}), transaction ${tx}`
}

const formatMinute = (at: Date): string => `${at.toISOString().slice(0, 16).replace('T', ' ')} UTC`
