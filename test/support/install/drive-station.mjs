/**
 * Starts an installed station in this folder and uses it as a new user does: `node drive-station.mjs PLAN`, with
 * the plan in JSON. Prints what it saw. Plain JavaScript of its own: it runs under other Nodes, users and networks.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { lstatSync, readFileSync, readdirSync, readlinkSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'

const { gas, umask, stations = 1 } = JSON.parse(process.argv[2])
process.umask(Number.parseInt(umask, 8))

/** Lines that a start and a stop in good order do not print. */
const complaints = []
const isComplaint = (line) =>
  !line.startsWith('{') || (JSON.parse(line).level >= 40 && !BUSY.test(line))
/** What only a busy machine makes a station say. */
const BUSY = /timed out|timeout/i

async function start() {
  const child = spawn(process.execPath, [gas, 'start'], { stdio: ['ignore', 'pipe', 'pipe'] })
  const exit = once(child, 'exit')
  const url = await new Promise((resolve, reject) => {
    for (const stream of [child.stdout, child.stderr])
      createInterface({ input: stream }).on('line', (line) => {
        if (isComplaint(line)) complaints.push(line)
        const ready = /gas-station ready ([^"\s]+)/.exec(line)?.[1]
        if (ready !== undefined) resolve(ready)
      })
    exit.then(([code]) => reject(new Error(`ended with ${code}: ${complaints.join('\n')}`)))
  })
  return { child, exit, url }
}

async function ask(url, body, key) {
  const headers = { 'content-type': 'application/json', ...(key && { 'x-api-key': key }) }
  const options = body && { method: 'POST', headers, body: JSON.stringify(body) }
  const reply = await fetch(url, options)
  return { status: reply.status, body: await reply.json() }
}

/** A call again while the database moves from one station to the other. */
async function call(url, key) {
  const program = { tool: 'code_sandbox', language: 'bash', code: 'echo $((6*7))' }
  for (;;) {
    const { status, body } = await ask(`${url}/api/refuel`, program, key)
    if (status !== 503) return { status, stdout: body.stdout, cost: body._meta?.cost_usdc }
  }
}

const verify = () =>
  new Promise((resolve) =>
    execFile(process.execPath, [gas, 'verify'], (error, stdout, stderr) => {
      const [first] = stdout.split('\n')
      resolve({ code: error?.code ?? 0, found: first.replace(/^.*: /, ''), stderr })
    }),
  )

async function stop({ child, exit }) {
  child.kill('SIGTERM')
  return (await exit)[0]
}

/** Files and folders that any user may change, in folders that any user may enter. */
function openPaths(folder) {
  return readdirSync(folder).flatMap((name) => {
    const path = join(folder, name)
    const found = lstatSync(path)
    const own = !found.isSymbolicLink() && (found.mode & 0o002) !== 0 ? [path] : []
    return found.isDirectory() && (found.mode & 0o001) !== 0 ? [...own, ...openPaths(path)] : own
  })
}

/** Where the running server of the database came from. */
function postgresProgram(dataDir) {
  try {
    const [pid] = readFileSync(join(dataDir, 'pg18/postmaster.pid'), 'utf8').split('\n')
    return readlinkSync(`/proc/${pid}/exe`)
  } catch {
    return null
  }
}

const running = []
for (let count = 0; count < stations; count += 1) running.push(await start())
const [first] = running
const dataDir = process.env.DATA_DIR ?? '.data'
const seen = { urls: running.map(({ url }) => url) }
seen.readyz = (await ask(`${first.url}/readyz`)).status
const { status, body: agent } = await ask(`${first.url}/api/onboard`, { name: 'scout' })
seen.onboarded = status
seen.calls = []
for (const { url } of running) seen.calls.push(await call(url, agent.api_key))
seen.postgres = postgresProgram(dataDir)
seen.open = openPaths(dataDir)
seen.exits = []
// The last one stays: it takes the database over from the one that ends.
for (const one of running.slice(0, -1)) seen.exits.push(await stop(one))
const last = running.at(-1)
if (stations > 1) seen.calls.push(await call(last.url, agent.api_key))
seen.verify = await verify()
seen.exits.push(await stop(last))
console.log(JSON.stringify({ ...seen, complaints }))
