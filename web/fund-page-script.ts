/** Script of the funding page: the copy button, and status polling while the page is visible. */
export const FUND_PAGE_SCRIPT = `
'use strict'
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
    const { deposits, wallet_address: to } = status
    const shown = deposits === 'on' ? 'on ' + (to ?? '') : deposits
    if (shown !== root.dataset.shown) return location.reload()
    show('tier', status.display.balance)
    show('deposit', status.display.deposits)
  } catch {
    // Offline: the next look tells.
  }
}
setInterval(look, 5000)
document.addEventListener('visibilitychange', look)
`
