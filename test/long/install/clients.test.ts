import { spawn, spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import t from 'tap'
import { findInstalledProgram } from '../../../chaos/nginx-process.ts'
import { startConnectionCuttingProxy } from '../../support/http/connection-cutting-proxy.ts'
import { installRegistryPrograms } from '../../support/install/registry-programs.ts'
import { runProgram } from '../../support/install/run-program.ts'
import { findPythonInterpreters } from '../../support/sdk/python-client-driver.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

/** The client matrix: what people have, unmodified, pays for calls and follows streams. */

const { skip, folder: cwd } = await installRegistryPrograms(t)
const main = await startInProcessTestStation(t)
const pythons = ['python3', ...findPythonInterpreters().map(({ path }) => path)]
/** The first Python with a module. */
const pythonWith = (name: string) =>
  pythons.find((path) => spawnSync(path, ['-c', `import ${name}`]).status === 0)

const BODY = '{"tool":"hive_trending","limit":null}'
const URLLIB = `import sys, urllib.request
headers = {"Authorization": "Bearer " + sys.argv[2], "Content-Type": "application/json"}
print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.argv[3].encode(), headers)).read().decode())`
const withModule = (name: string) => `import sys, json, ${name}
print(${name}.post(sys.argv[1], headers={"X-API-Key": sys.argv[2]}, json=json.loads(sys.argv[3])).text)`

/** A program that posts the body to an address with a key, and prints the answer. */
type HttpClient = (url: string, key: string) => readonly string[]
function pythonRow(name: string, code: string): [string, string | false, HttpClient] {
  const python = pythonWith(name)
  const client: HttpClient = (url, key) => [python ?? '', '-c', code, url, key, BODY]
  return [`${name} of Python`, python === undefined && `no Python here has ${name}`, client]
}

const HTTP_CLIENTS: readonly [name: string, skip: string | false, client: HttpClient][] = [
  [
    'curl',
    findInstalledProgram('curl') === null && 'no curl is installed',
    (url, key) => ['curl', '-sS', '-H', `X-API-Key: ${key}`, '--json', BODY, url],
  ],
  [
    'wget',
    findInstalledProgram('wget') === null && 'no wget is installed',
    (url, key) => [
      ...['wget', '-qO-', `--header=Authorization: Bearer ${key}`],
      ...['--header=Content-Type: application/json', `--post-data=${BODY}`, url],
    ],
  ],
  pythonRow('urllib.request', URLLIB),
  pythonRow('requests', withModule('requests')),
  pythonRow('httpx', withModule('httpx')),
]

for (const [name, skip, client] of HTTP_CLIENTS)
  t.test(`${name} pays for a call`, { skip }, async (t) => {
    const { key } = await main.onboard()
    const [program = '', ...args] = client(`${main.url}/api/refuel`, key)
    const { code, out, err } = await runProgram(program, args, { cwd: '/' })
    t.equal(code, 0, err)
    t.match(JSON.parse(out), { _meta: { cost_usdc: 0.005 } })
  })

/** Prints what it hears; both libraries send the place where they were when they connect again. */
const LISTENER = `import { EventSource } from 'eventsource'
import polyfill from 'event-source-polyfill'
const [name, url, key] = process.argv.slice(2)
const headers = { 'X-API-Key': key }
const source = name === 'eventsource'
  ? new EventSource(url, {
      fetch: (input, init) => fetch(input, { ...init, headers: { ...init.headers, ...headers } }),
    })
  : new polyfill.EventSourcePolyfill(url, { headers })
source.addEventListener('ready', () => console.log('ready'))
source.addEventListener('gap', () => console.log('gap'))
source.addEventListener('signal', ({ data }) => console.log(JSON.parse(data).payload.n))
`

for (const name of ['eventsource', 'event-source-polyfill'] as const)
  t.test(`${name} resumes a cut stream without a loss`, { skip }, async (t) => {
    writeFileSync(join(cwd, 'listen.mjs'), LISTENER)
    const { key } = await main.onboard()
    const proxy = await startConnectionCuttingProxy(t, main.url)
    const publish = async (n: number) => {
      const json = { channel: name, type: 'result', payload: { n } }
      t.match(await main.ask('POST', '/api/signal/publish', { key, json }), { status: 200 })
    }
    const url = `${proxy.url}/api/signal/stream?channels=${name}`
    const child = spawn(process.execPath, ['listen.mjs', name, url, key], {
      cwd,
      stdio: ['ignore', 'pipe', 'ignore'],
    })
    t.teardown(() => child.kill('SIGKILL'))
    const heard: string[] = []
    for await (const line of createInterface({ input: child.stdout })) {
      if (heard.length === 0) await publish(1)
      if (line !== 'ready' || heard.length === 0) heard.push(line)
      if (line === '1') {
        proxy.breakAll()
        await publish(2)
        await publish(3)
      }
      if (line === '3' || line === 'gap') break
    }
    t.strictSame(heard, ['ready', '1', '2', '3'])
  })

t.test('the books are right', () => main.verify())
