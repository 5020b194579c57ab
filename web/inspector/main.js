import { refill } from './dom.js'
import { Inspector } from './inspector.js'
import { signInBox } from './sign-in.js'
import { RefusedError, readSession, signIn, signOut } from './station.js'

/** Opens the page: a one-time code in the address, else the session, else the sign-in box. */

/** @type {Inspector | null} */
let running = null

/** The code of the link that the station printed; it leaves the address at once. */
function takeCode() {
  const [, code] = /^#code=([\w-]+)$/.exec(location.hash) ?? []
  if (code !== undefined) history.replaceState(null, '', location.pathname)
  return code
}

async function open() {
  const session = await readSession()
  if (!session.signed_in) return showSignIn()
  if (running !== null) return
  running = new Inspector({ onSignedOut: () => void checkSession(), onSignOut: () => void leave() })
  refill(document.body, running.element)
  running.start(session.machines)
}

function showSignIn() {
  running?.stop()
  running = null
  const { form, focus } = signInBox(() => void open())
  refill(document.body, form)
  focus()
}

async function checkSession() {
  const session = await readSession().catch(() => null)
  if (session !== null && !session.signed_in) showSignIn()
}

async function leave() {
  await signOut()
  showSignIn()
}

const code = takeCode()
try {
  if (code !== undefined) await signIn({ code })
} catch (error) {
  if (!(error instanceof RefusedError)) throw error
}
await open()
