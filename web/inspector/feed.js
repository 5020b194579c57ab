/** The socket of live frames. It reconnects by itself and then asks for its filter again. */

const FIRST_WAIT_MS = 300
const MAX_WAIT_MS = 5_000

/** @typedef {{machine?: string, q?: string, actor?: string, agent?: string}} Filter */

export class Feed {
  /** @type {WebSocket | null} */
  #socket = null
  /** @type {Filter} */
  #filter = {}
  #wait = FIRST_WAIT_MS
  #closed = false

  /**
   * @param {{onFrame(frame: any): void, onState(live: boolean): void, onRefused(): void}} told
   * `onRefused` follows a socket that closes before it opens: the session may have ended.
   */
  constructor(told) {
    this.told = told
  }

  /** @param {Filter} filter */
  open(filter) {
    this.#closed = false
    this.#filter = filter
    this.#connect()
  }

  #connect() {
    const { protocol, host } = location
    const query = new URLSearchParams(/** @type {Record<string, string>} */ (this.#filter))
    const url = `${protocol === 'https:' ? 'wss' : 'ws'}://${host}/inspector/ws?${query}`
    const socket = new WebSocket(url)
    let opened = false
    this.#socket = socket
    socket.addEventListener('open', () => {
      opened = true
      this.#wait = FIRST_WAIT_MS
      this.told.onState(true)
    })
    socket.addEventListener('message', ({ data }) => this.told.onFrame(JSON.parse(data)))
    socket.addEventListener('close', () => {
      if (this.#socket !== socket) return
      this.told.onState(false)
      if (!opened) this.told.onRefused()
      if (!this.#closed) this.#reconnect()
    })
  }

  #reconnect() {
    setTimeout(() => {
      if (!this.#closed) this.#connect()
    }, this.#wait)
    this.#wait = Math.min(MAX_WAIT_MS, this.#wait * 2)
  }

  /** Replaces the filter; the station then sends the actors that it matches. @param {Filter} filter */
  setFilter(filter) {
    this.#filter = filter
    if (this.#socket?.readyState === WebSocket.OPEN)
      this.#socket.send(JSON.stringify({ type: 'gas.filter', ...filter }))
  }

  /** Asks for the matching actors again. */
  refresh() {
    this.setFilter(this.#filter)
  }

  close() {
    this.#closed = true
    this.#socket?.close()
  }
}
