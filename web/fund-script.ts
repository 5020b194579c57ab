export const TIER_WORDS: Readonly<Record<string, string>> = {
  healthy: 'Good',
  warning: 'Low',
  critical: 'Very low',
  empty: 'Empty',
}
export const DEPOSIT_WORDS: Readonly<Record<string, string>> = {
  provisional: 'Credited, not final on the chain yet',
  final: 'Credited',
  reorged: 'Undone by the chain',
}

/** What moves on the funding page: the copy button, and a look at the status while it is visible. */
export const SCRIPT = `
'use strict'
const TIERS = ${JSON.stringify(TIER_WORDS)}
const DEPOSITS = ${JSON.stringify(DEPOSIT_WORDS)}
const root = document.querySelector('main')
const copy = document.getElementById('copy')
const address = document.getElementById('address')
if (copy !== null) copy.addEventListener('click', async () => {
  try {
    await navigator.clipboard.writeText(address.textContent)
    copy.textContent = 'Copied'
  } catch {
    getSelection().selectAllChildren(address)
    copy.textContent = 'Selected'
  }
  setTimeout(() => { copy.textContent = 'Copy' }, 2000)
})
const show = (id, text) => {
  const place = document.getElementById(id)
  if (place !== null && place.textContent !== text) place.textContent = text
}
const look = async () => {
  if (document.hidden) return
  try {
    const reply = await fetch(root.dataset.status, { headers: { accept: 'application/json' } })
    if (!reply.ok) return
    const status = await reply.json()
    if (status.wallet_address !== root.dataset.address) return location.reload()
    show('tier', TIERS[status.tier] ?? 'Not known')
    const last = status.last_deposit
    if (last === null) return show('deposit', 'None yet')
    const at = last.at.slice(0, 16).replace('T', ' ')
    show('deposit', (DEPOSITS[last.state] ?? last.state) + ' (' + at + ' UTC)')
  } catch {
    // Offline: the next look tells.
  }
}
setInterval(look, 5000)
document.addEventListener('visibilitychange', look)
`
