/** The page of an owner: signs in, then shows and changes the agents of the session. */

import { element, enableCopying, find, renderProblem } from './dom.js'
import { drawSpending, followTheme } from './owner-chart.js'
import {
  FieldError,
  letRead,
  readLimit,
  refreshBackpacks,
  showBackpacks,
  showKeys,
} from './owner-limits.js'
import { createCallsTable, createStatementTable, formatTime, showRefused } from './owner-lists.js'
import {
  ask,
  chooseAgent,
  OutdatedError,
  readSession,
  RefusedError,
  requestLink,
  signIn,
  signOut,
} from './owner-session.js'

const REFRESH_MS = 5_000

/** @type {{ agent_id: string, name: string }[]} */
let agents = []
/** @type {string | null} */
let shown = null
let isFrozen = false
/** What the lists of calls show: the agent, and the figures they add up to. */
let listed = ''
/** The code of a link that waits for its click. @type {string | null} */
let offeredLink = null

const showCalls = createCallsTable(fail)
const showStatement = createStatementTable(fail)

/** @param {string} selector */
const field = (selector) => /** @type {HTMLInputElement} */ (find(selector))

/** @param {string} selector @param {string} text */
function say(selector, text) {
  const place = find(selector)
  if (place !== null) place.textContent = text
}

/** Shows a problem where the work is; a session that has ended shows the sign-in. @param {unknown} error */
function fail(error) {
  // A field says itself what is wrong.
  if (error instanceof OutdatedError || error instanceof FieldError) return
  if (error instanceof RefusedError && error.status === 401 && shown !== null)
    return void begin('The session has ended.')
  showProblem(error, shown === null ? '#sign-in-problem' : '#problem')
}

/** @param {unknown} error @param {string} selector */
function showProblem(error, selector) {
  const problem = error instanceof RefusedError ? error.problem : { title: String(error) }
  const place = find(selector)
  // Its remedy is for programs: to onboard an agent.
  place?.replaceChildren(renderProblem({ ...problem, remedy: undefined }))
  place?.scrollIntoView({ block: 'nearest' })
}

/** Tells at its form, in plain words, why something was refused. @param {HTMLElement} form @param {unknown} error */
function failAt(form, error) {
  if (!(error instanceof RefusedError) || error.status === 401 || shown === null) return fail(error)
  const words = `${error.outcome}${error.message}`
  form.append(element('p', { class: 'fault small refusal', role: 'alert' }, words))
}

/** Takes away what was said before: each new deed says how it ends. */
function clearProblems() {
  for (const place of ['#problem', '#sign-in-problem', '#add-problem'])
    find(place)?.replaceChildren()
  for (const said of document.querySelectorAll('.refusal')) said.remove()
  for (const said of document.querySelectorAll('[id$=-said]')) said.textContent = ''
}

/** Runs the work of a form once at a time. @param {string} selector @param {() => Promise<void>} work */
function onSubmit(selector, work) {
  const form = find(selector)
  const button = form?.querySelector('button')
  form?.addEventListener('submit', (event) => {
    event.preventDefault()
    clearProblems()
    if (button) button.disabled = true
    work()
      .catch((error) => failAt(form, error))
      .finally(() => {
        if (button) button.disabled = false
      })
  })
}

/** Reads the session and shows what it allows. @param {string} [words] */
async function begin(words = '') {
  const session = await readSession()
  agents = session.agents
  const isIn = session.signed_in
  find('#sign-in')?.toggleAttribute('hidden', isIn)
  find('#agents')?.toggleAttribute('hidden', !isIn)
  for (const form of ['#mail-form', '#contact-form'])
    find(form)?.toggleAttribute('hidden', !session.can_mail)
  if (!isIn) {
    shown = null
    if (words !== '') find('#sign-in-problem')?.replaceChildren(renderProblem({ title: words }))
    return
  }
  const wanted = agents.find(({ agent_id: id }) => `#${id}` === location.hash) ?? agents[0]
  if (wanted !== undefined) await open(wanted.agent_id)
}

/** @param {string} id */
async function open(id) {
  shown = id
  listed = ''
  chooseAgent(id)
  history.replaceState(null, '', `#${id}`)
  clearProblems()
  find('#new-key')?.toggleAttribute('hidden', true)
  find('#agent-tabs')?.replaceChildren(...agents.map(agentTab))
  const mine = agents.find(({ agent_id: one }) => one === id)
  say('#agent-name', mine?.name ?? 'Your agents')
  say('#agent-id', id)
  await Promise.all([refresh(), readLimits(), readAlerts()])
}

/** @param {{ agent_id: string, name: string }} agent */
function agentTab({ agent_id: id, name }) {
  const isTwin = agents.some((other) => other.name === name && other.agent_id !== id)
  const label = isTwin ? `${name} …${id.slice(-4)}` : name
  const button = element('button', { type: 'button', class: 'quiet slim' }, label)
  if (id === shown) button.setAttribute('aria-current', 'true')
  button.addEventListener('click', () => void open(id).catch(fail))
  return element('li', {}, button)
}

/** Balance, state and spending: what changes while an agent works. */
async function refresh() {
  const [funds, spending, me, packs] = await Promise.all([
    ask('GET', '/api/credits/balance'),
    ask('GET', '/api/agent/spending'),
    ask('GET', '/api/agent/me'),
    ask('GET', '/api/backpacks'),
  ])
  const figures = { ...funds, ...funds.usage }
  for (const place of document.querySelectorAll('[data-figure]')) {
    const name = place.getAttribute('data-figure') ?? ''
    place.textContent = `${figures[name]}${name.endsWith('_usdc') ? ' USDC' : ''}`
  }
  field('#fund').setAttribute('href', new URL(funds.fund_url, location.href).pathname)
  const cut = spending.complete ? '' : ' (of the latest calls)'
  say('#spending-sum', `${spending.spent_usdc} USDC in ${spending.calls} calls${cut}`)
  showFreeze(me.frozen_at)
  refreshBackpacks(packs.backpacks, readLimits, fail)
  // Every list that shows the same calls.
  const seen = `${shown} ${spending.calls} ${funds.balance_usdc}`
  if (listed !== seen) await Promise.all([showCalls(), showRefused(), showStatement()])
  listed = seen
  await drawSpending(spending)
  return me
}

/** @param {string | null} at */
function showFreeze(at) {
  isFrozen = at !== null
  find('#freeze-box')?.classList.toggle('frozen', isFrozen)
  say('#freeze-title', isFrozen ? 'Frozen' : 'Active')
  say(
    '#freeze-words',
    isFrozen
      ? `Since ${formatTime(at ?? '')} UTC no key of this agent spends or acts. Deposits are still credited.`
      : 'Its keys spend within their limits. Freezing stops all of them at once; running calls end as usual.',
  )
  const button = find('#freeze')
  if (button === null) return
  button.textContent = isFrozen ? 'Unfreeze' : 'Freeze'
  button.classList.toggle('danger', !isFrozen)
}

async function readLimits() {
  const [packs, keys] = await Promise.all([ask('GET', '/api/backpacks'), ask('GET', '/api/keys')])
  showBackpacks(packs.backpacks, readLimits, fail)
  showKeys(keys.keys, readLimits, fail)
}

async function readAlerts() {
  const me = await ask('GET', '/api/agent/me')
  const { can_send: can, last } = me.ping
  const ways = [can.email ? 'e-mail' : '', can.telegram ? 'Telegram' : ''].filter(Boolean)
  const able =
    ways.length === 0
      ? 'This station sends no alerts.'
      : `Sent by ${ways.join(' and ')}: low credits, stopped schedules, a freeze, an exported wallet.`
  const latest =
    last === null ? '' : ` The last one (${last.topic}, ${formatTime(last.at)}) is ${last.state}.`
  say('#alerts-words', `${able}${latest}`)
  field('#alert-mail').value = me.owner_email ?? ''
  field('#alert-chat').value = me.owner_telegram ?? ''
  field('#contact-mail').value = me.contact_email ?? ''
  say(
    '#contact-words',
    me.contact_email_confirmed
      ? `Links to ${me.contact_email} sign you in.`
      : 'The person who opens the link manages this agent.',
  )
}

onSubmit('#link-form', async () => {
  const link = offeredLink ?? ''
  offerLink(null)
  const refused = await signIn({ link }).then(
    () => null,
    (/** @type {unknown} */ error) => error,
  )
  await begin()
  if (refused !== null) showProblem(refused, shown === null ? '#sign-in-problem' : '#problem')
})
onSubmit('#key-form', async () => {
  await signIn({ api_key: field('#key-field').value })
  field('#key-field').value = ''
  await begin()
})
onSubmit('#mail-form', async () => {
  await requestLink(field('#mail-field').value)
  say('#mail-said', 'If the address is confirmed for an agent, a link is on its way.')
})
onSubmit('#add-form', async () => {
  try {
    await signIn({ api_key: field('#add-field').value })
  } catch (error) {
    return showProblem(error, '#add-problem')
  }
  field('#add-field').value = ''
  const known = new Set(agents.map(({ agent_id: id }) => id))
  const session = await readSession()
  agents = session.agents
  const added = agents.find(({ agent_id: id }) => !known.has(id))
  if (added !== undefined) await open(added.agent_id)
})
/** Whether the page has asked if a new Backpack shall have no limit. */
let hasAsked = false
onSubmit('#pack-form', async () => {
  say('#pack-said', '')
  const limit = readLimit(field('#pack-day'))
  if (limit === null && !hasAsked) {
    hasAsked = true
    say('#pack-said', 'Nothing was made yet. It would have no limit a day. Press again to make it.')
    return letRead(find('#pack-form button'))
  }
  hasAsked = false
  await ask('POST', '/api/backpack/create', {
    agent_name: field('#pack-name').value,
    ...(limit === null ? {} : { fuse: { per_day_usdc: limit } }),
  })
  find('#new-pack')?.removeAttribute('open')
  field('#pack-name').value = ''
  field('#pack-day').value = ''
  await readLimits()
})
find('#pack-form')?.addEventListener('input', () => {
  hasAsked = false
  say('#pack-said', '')
})
onSubmit('#bound-key-form', async () => {
  const body = { name: field('#bound-name').value, backpack_id: field('#bound-pack').value }
  const name = agents.find(({ agent_id: id }) => id === shown)?.name ?? ''
  // Nobody can read the key again, so it is shown whichever agent the page shows by then.
  const made = await ask('POST', '/api/keys', body, true)
  say('#new-key-agent', name)
  field('#bound-name').value = ''
  find('#new-key')?.removeAttribute('hidden')
  const code = find('#new-key code')
  if (code !== null) code.textContent = made.api_key
  await readLimits()
})
onSubmit('#alerts-form', async () => {
  const [mail, chat] = [field('#alert-mail').value.trim(), field('#alert-chat').value.trim()]
  await ask('POST', '/api/agent/set-contact', {
    owner_email: mail === '' ? null : mail,
    owner_telegram: chat === '' ? null : chat,
  })
  say('#alerts-said', 'Saved.')
})
onSubmit('#contact-form', async () => {
  const email = field('#contact-mail').value.trim()
  const { sent } = await ask('POST', '/api/agent/contact-email', { contact_email: email })
  say('#contact-said', sent ? `A link was sent to ${email}.` : 'It is confirmed already.')
})
find('#agents')?.addEventListener(
  'click',
  ({ target }) => {
    if (target instanceof Element && target.closest('button') !== null) clearProblems()
  },
  { capture: true },
)
find('#freeze')?.addEventListener('click', () => {
  const path = isFrozen ? '/api/agent/unfreeze' : '/api/agent/freeze'
  const button = find('#freeze')
  button?.toggleAttribute('disabled', true)
  ask('POST', path, {})
    .then(({ frozen_at: at }) => {
      showFreeze(at)
      return letRead(button)
    })
    .catch(fail)
    .finally(() => button?.toggleAttribute('disabled', false))
})
find('#sign-out')?.addEventListener('click', () => {
  signOut()
    .then(() => begin())
    .catch(fail)
})

enableCopying()
followTheme()
setInterval(() => {
  if (shown !== null && document.visibilityState === 'visible') void refresh().catch(fail)
}, REFRESH_MS)

/**
 * A link from a mail waits for a click: programs that check mails open pages and run their scripts, and would use
 * it up. Its code is in the fragment, which no server sees.
 */
async function start() {
  const [, link] = /^#link=([\w-]+)$/.exec(location.hash) ?? []
  if (link === undefined) return begin()
  history.replaceState(null, '', location.pathname)
  shown = null
  find('#agents')?.toggleAttribute('hidden', true)
  find('#sign-in')?.toggleAttribute('hidden', false)
  find('#sign-in-problem')?.replaceChildren()
  offerLink(link)
}

/** Shows the form of a link in place of the other ways to sign in; null takes it away. @param {string | null} link */
function offerLink(link) {
  offeredLink = link
  find('#link-form')?.toggleAttribute('hidden', link === null)
  find('#proofs')?.toggleAttribute('hidden', link !== null)
}
start().catch(fail)
// A link that is pasted into the address of the open page loads nothing.
addEventListener('hashchange', () => {
  if (location.hash.startsWith('#link=')) void start().catch(fail)
})
