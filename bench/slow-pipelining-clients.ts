import { connect, type Socket } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'

/** Sockets that pipeline requests and read slowly, in a process of their own, until its input ends. */

const [, program = '', port = '', path = '/', sockets = '100', requests = '200'] = process.argv
/** A socket reads about 64 KiB at a time. */
const READ_INTERVAL_MS = 100

let answers = 0

/** Pipelines its requests, reads all answers slowly, and begins again. */
async function pipelineSlowly(): Promise<void> {
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  const request = `GET ${path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n`
  for (;;) {
    socket.write(request.repeat(Number(requests)))
    await readSlowly(socket, Number(requests))
  }
}

async function readSlowly(socket: Socket, expected: number): Promise<void> {
  for (let read = 0; read < expected;) {
    const chunk = socket.read() as Buffer | null
    if (chunk !== null) {
      const count = chunk.toString('latin1').split('HTTP/1.1 200').length - 1
      read += count
      answers += count
    }
    await pause(READ_INTERVAL_MS)
  }
}

if (program.endsWith('slow-pipelining-clients.ts')) {
  for (let each = 0; each < Number(sockets); each += 1) void pipelineSlowly()
  process.stdin.resume().on('end', () => {
    console.log(String(answers))
    process.exit(0)
  })
  console.log('ready')
}
