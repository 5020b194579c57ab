import { connect } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { connectMinimalWebSocket } from './minimal-websocket-client.ts'

/**
 * Watchers of the inspector in a process of their own, until its input ends: one that never reads, and
 * this number that read everything as fast as they can.
 */

const [, program = '', port = '', token = '', watchers = '0'] = process.argv
/** What watchers do first: they are sent the stored actors. */
const JOIN_MS = 500

export interface InspectorWatchersBenchmarkReport {
  readonly admitted: number
  readonly refused: number
  readonly frames: number
  readonly bytes: number
}

const headers = { authorization: `Bearer ${token}` }
const heard = { frames: 0, bytes: 0 }

/** A socket that upgrades and then leaves everything in the buffers of the kernel and of the station. */
async function watchWithoutReading(): Promise<void> {
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  const lines = [
    'GET /inspector/ws HTTP/1.1',
    `Host: 127.0.0.1:${port}`,
    'Connection: Upgrade',
    'Upgrade: websocket',
    'Sec-WebSocket-Version: 13',
    'Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==',
    `Authorization: ${headers.authorization}`,
  ]
  socket.write(`${lines.join('\r\n')}\r\n\r\n`)
  await pause(JOIN_MS)
}

async function watch(): Promise<boolean> {
  const opened = await connectMinimalWebSocket({
    url: `http://127.0.0.1:${port}/inspector/ws`,
    protocol: 'inspector',
    headers,
    hear(payload) {
      heard.frames += 1
      heard.bytes += payload.length
    },
    fail: () => {},
  }).catch(() => null)
  return opened !== null
}

if (program.endsWith('inspector-watchers-child-process.ts')) {
  await watchWithoutReading()
  const opened = await Promise.all(Array.from({ length: Number(watchers) }, watch))
  await pause(JOIN_MS)
  console.log('ready')
  process.stdin.resume().on('end', () => {
    const admitted = opened.filter(Boolean).length
    const report: InspectorWatchersBenchmarkReport = {
      admitted,
      refused: opened.length - admitted,
      ...heard,
    }
    console.log(JSON.stringify(report))
    process.exit(0)
  })
}
