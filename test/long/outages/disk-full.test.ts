import { setTimeout as wait } from 'node:timers/promises'
import t from 'tap'
import { createDatabaseOnSmallDisk } from '../../support/postgres/full-disk-test-database.ts'
import {
  startInProcessTestStation,
  type InProcessStation,
} from '../../support/station/start-test-station.ts'

const health = async (main: InProcessStation) => {
  const { status, body } = await main.ask('GET', '/api/network/health')
  const { postgres } = body['dependencies'] as { postgres: object }
  return { status, state: body['status'], degraded: body['degraded_dependencies'], postgres }
}

const disk = await createDatabaseOnSmallDisk(t)
if (disk === null) t.pass('no disk can be mounted here', { skip: 'mounting needs root' })
else
  t.test(
    'a full disk returns 503 and is reported by health; nothing is lost or charged twice',
    async (t) => {
      const main = await startInProcessTestStation(t, {}, { database: disk.database })
      const guest = await main.onboard()
      const note = 'x'.repeat(8_000)
      const write = (n: number) =>
        main.ask('POST', '/api/hive/write', {
          key: guest.key,
          json: { content: `${n} ${note}`.slice(0, 2_000), namespace: 'disk' },
          headers: { 'idempotency-key': `write-number-${n}` },
        })
      t.equal((await write(0)).status, 201)
      t.match(await health(main), { status: 200, state: 'ok' })

      disk.fill()
      const kept: number[] = []
      const refused: number[] = []
      for (let n = 1; n <= 90; n++) {
        const answer = await write(n)
        if (answer.status === 201) {
          kept.push(n)
          continue
        }
        refused.push(n)
        t.match(answer, { status: 503, body: { code: 'unavailable' } }, answer.text)
        t.ok(Number(answer.headers['retry-after']) > 0)
      }
      t.ok(refused.length > 10, `${refused.length} refused, ${kept.length} kept`)
      t.match(await health(main), {
        status: 503,
        state: 'degraded',
        degraded: ['postgres'],
        postgres: { ok: false, detail: 'cannot store anything: its disk is full' },
      })
      t.equal(
        (await main.ask('GET', '/api/agent/me', { key: guest.key })).status,
        200,
        'reads go on',
      )

      disk.clear()
      while ((await health(main)).status !== 200) await wait(50)
      t.match(await health(main), { status: 200, state: 'ok', postgres: { ok: true } })
      // A text that could not be stored is free at once for a repetition with its key.
      for (const n of [...kept, ...refused]) t.equal((await write(n)).status, 201, `write ${n}`)
      const [row] = await main.sql`select count(*)::int as count from hive_entries`
      t.equal(row?.['count'], 91, 'each once')
      t.equal(await main.balance(guest), 0.5)
      await main.verify()
    },
  )
