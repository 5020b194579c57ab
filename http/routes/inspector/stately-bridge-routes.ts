import { createHash } from 'node:crypto'
import type { FastifyPluginAsyncTypebox } from '@fastify/type-provider-typebox'
import { ServiceError } from '../../../core/errors.ts'
import { requireInspectorFeed } from '../../inspector/require-inspector-feed.ts'

/**
 * A page that shows the feed in Stately's hosted inspector. The states leave this station for a third
 * party, so the page asks first, and there is none in production.
 */

const STATELY = 'https://stately.ai'

const SCRIPT = `
const open = document.querySelector('button')
const note = document.querySelector('p[role=status]')
open.addEventListener('click', () => {
  open.disabled = true
  const frame = document.createElement('iframe')
  frame.title = 'Stately Inspector'
  const address = new URL('/inspector/ws' + location.search, location.href)
  address.protocol = address.protocol.replace('http', 'ws')
  let early = []
  addEventListener('message', ({ source, origin, data }) => {
    if (origin !== '${STATELY}' || source !== frame.contentWindow) return
    if (data?.type !== '@statelyai.connected' || early === null) return
    for (const event of early) frame.contentWindow.postMessage(event, '${STATELY}')
    early = null
    note.textContent = 'Connected: states are sent to stately.ai until this page is closed.'
  })
  const socket = new WebSocket(address)
  socket.addEventListener('message', ({ data }) => {
    const { gas, ...event } = JSON.parse(data)
    if (!event.type.startsWith('@xstate.')) return
    if (early !== null) early.length < 2000 && early.push(event)
    else frame.contentWindow.postMessage(event, '${STATELY}')
  })
  socket.addEventListener('close', () => { note.textContent = 'Not connected. Sign in at /inspector first.' })
  frame.src = '${STATELY}/inspect'
  document.body.append(frame)
})
`
const STYLE = `
body { margin: 0; font: 14px/1.5 system-ui, sans-serif; display: flex; flex-direction: column; height: 100vh }
main { padding: 12px 16px; max-width: 70ch } iframe { flex: 1; border: 0; border-top: 1px solid #8888 }
`
const PAGE = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="robots" content="noindex"><title>Stately Inspector</title>
<style>${STYLE}</style></head><body><main>
<h1>Send states to stately.ai?</h1>
<p>This shows the machines of this station in the hosted inspector of Stately. The ids, names, amounts and
states of its agents are sent to <b>stately.ai</b>. Keys and contacts are not. <a href="/inspector">The
inspector of this station</a> sends nothing anywhere.</p>
<button type="button">Send them to stately.ai</button> <p role="status"></p>
</main><script>${SCRIPT}</script></body></html>
`

const hashOf = (text: string): string =>
  `'sha256-${createHash('sha256').update(text, 'utf8').digest('base64')}'`

const getBridge = {
  config: { auth: 'none', ignoresUnknownQuery: true } as const,
  schema: { hide: true },
}

/** `GET /inspector/stately`. */
export const statelyBridgeRoutes: FastifyPluginAsyncTypebox = async (app) => {
  const { services } = app
  const { config } = services

  app.get('/inspector/stately', getBridge, async (_request, reply) => {
    requireInspectorFeed(services)
    if (config.production) throw new ServiceError('not_found')
    return reply
      .type('text/html; charset=utf-8')
      .header('cache-control', 'no-store')
      .header('content-security-policy', contentSecurityPolicy(config.publicUrl))
      .header('referrer-policy', 'no-referrer')
      .header('x-content-type-options', 'nosniff')
      .serializer(String)
      .send(PAGE) as never
  })
}

function contentSecurityPolicy(publicUrl: string): string {
  return [
    "default-src 'none'",
    `script-src ${hashOf(SCRIPT)}`,
    `style-src ${hashOf(STYLE)}`,
    // Some browsers do not count the WebSockets of this host as 'self'.
    `connect-src 'self' ${publicUrl.replace(/^http/, 'ws')}`,
    `frame-src ${STATELY}`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
