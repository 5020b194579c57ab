import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { REPOSITORY_ROOT } from '../../scripts/repository-root.ts'
import { createStationDataDir } from '../support/station/temporary-station-data-directory.ts'

/** In place of the station, which handles these signals: says who it is, and how it ends. */
const PROGRAM = `
for (const signal of ['SIGTERM', 'SIGINT'])
  process.once(signal, () => { console.log('stopped: ' + signal); process.exit(0) })
setInterval(() => {}, 1_000)
console.log('ready ' + process.pid)
`

t.test('a signal to npm start reaches the station, and npm waits for its end', async (t) => {
  const { scripts } = JSON.parse(readFileSync(join(REPOSITORY_ROOT, 'package.json'), 'utf8')) as {
    scripts: { start: string }
  }
  const folder = createStationDataDir(t)
  mkdirSync(join(folder, 'dist', 'app'), { recursive: true })
  writeFileSync(join(folder, 'dist', 'app', 'main.js'), PROGRAM)
  const manifest = { name: 'station', version: '1.0.0', scripts: { start: scripts.start } }
  writeFileSync(join(folder, 'package.json'), JSON.stringify(manifest))
  for (const signal of ['SIGTERM', 'SIGINT'] as const) {
    const npm = spawn('npm', ['start'], { cwd: folder, stdio: ['ignore', 'pipe', 'pipe'] })
    t.teardown(() => npm.kill('SIGKILL'))
    let said = ''
    for (const stream of [npm.stdout, npm.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (said += text))
    const closed = once(npm, 'close')
    while (!said.includes('ready ')) await Promise.race([once(npm.stdout, 'data'), closed])
    npm.kill(signal)
    t.strictSame(await closed, [0, null], said)
    t.match(said, `stopped: ${signal}`)
    t.notMatch(said, /npm (err|error)/i)
    const pid = Number(/ready (\d+)/.exec(said)?.[1])
    t.throws(() => process.kill(pid, 0), { code: 'ESRCH' }, 'nothing goes on without npm')
  }
})
