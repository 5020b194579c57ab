import t from 'tap'
import { readFields } from '../../../core/validation/request-fields.ts'
import { EvmAddressField } from '../../../providers/chain-data/chain-tool-schemas.ts'
import emailSend from '../../../tools/comms/email-send.ts'
import agentAct from '../../../tools/perception/agent-act.ts'
import agentSee from '../../../tools/perception/agent-see.ts'
import dataRetrieval from '../../../tools/web/data-retrieval.ts'
import { startInProcessTestStation } from '../../support/station/start-test-station.ts'

t.test('addresses are read as people and models write them', async (t) => {
  const urls = [
    ['https://example.com/a?b=%20c#d', 'https://example.com/a?b=%20c#d'],
    [' <http://host.example/é>\n', 'http://host.example/%C3%A9'],
    ['http://host.example/a b|c[d]', 'http://host.example/a%20b%7Cc%5Bd%5D'],
    ['HTTPS://Bücher.example./x', 'https://xn--bcher-kva.example./x'],
    ['http://[::1]:80/é', 'http://[::1]/%C3%A9'],
    ['http://host.example/{{keyring.K}}', 'http://host.example/{{keyring.K}}'],
    ['example.com/é', 'example.com/é'],
    ['javascript:alert(1) ', 'javascript:alert(1)'],
  ] as const
  for (const { input } of [dataRetrieval, agentSee, agentAct])
    for (const [url, read] of urls) t.strictSame(readFields(input, { url }), { url: read })
  const mails = [
    ['Ada.L@Example.org', 'Ada.L@Example.org'],
    [' mailto:ada@example.org ', 'ada@example.org'],
    ['Ada <ada@bücher.example.>', 'ada@xn--bcher-kva.example'],
    ['a@b.example, c@d.example', 'a@b.example, c@d.example'],
    ['no address', 'no address'],
  ] as const
  for (const [to, read] of mails) t.strictSame(readFields(emailSend.input, { to }), { to: read })
  const wallet = `0x${'aB'.repeat(20)}`
  for (const text of [wallet, ` ${wallet}\n`, wallet.replace('0x', '0X')])
    t.equal(readFields(EvmAddressField, text), wallet)
})

t.test('each way in reads addresses alike, and refuses what is none', async (t) => {
  const main = await startInProcessTestStation(t)
  const { key } = await main.onboard()
  const written = 'Owner <owner@bücher.example.>'
  const json = { owner_email: written }
  const contact = await main.ask('POST', '/api/agent/set-contact', { key, json })
  t.match(contact.body, { owner_email: 'owner@xn--bcher-kva.example' }, contact.text)
  const onboard = await main.ask('POST', '/api/onboard', {
    json: { name: 'reader', contact_email: written, description: null, source: null },
  })
  t.equal(onboard.status, 201, onboard.text)
  const profile = await main.ask('GET', '/api/agent/me', { key: onboard.body.api_key })
  t.match(profile.body, { contact_email: 'owner@xn--bcher-kva.example' }, profile.text)
  for (const url of ['http://127.0.0.1/é', ' <http://127.0.0.1/a b> '])
    for (const ask of [{ url }, { params: { url } }])
      t.match(
        await main.ask('POST', '/api/refuel', { key, json: { tool: 'data_retrieval', ...ask } }),
        { body: { code: 'blocked_url' } },
        'it is read, and then refused for where it leads',
      )
  const url = ' <http://127.0.0.1/é> '
  const builder = { slug: 'read-me', name: 'R', description: 'd', price_per_call_usdc: 0.01 }
  for (const [method, path, json] of [
    ['POST', '/api/webhook/register', { url }],
    ['POST', '/api/x402/register', { url, name: 'an API', price_usdc: 0.01 }],
    ['GET', `/api/x402/probe?url=${encodeURIComponent(url)}`, undefined],
    ['POST', '/api/tools/register', { ...builder, endpoint_url: url }],
    ['POST', '/api/tools/import', { openapi_url: url, price_per_call_usdc: 0.01 }],
    ['POST', '/api/tools/import', { mcp_url: url, price_per_call_usdc: 0.01 }],
  ] as const)
    t.match(
      await main.ask(method, path, json === undefined ? { key } : { key, json }),
      { body: { code: 'blocked_url' } },
      path,
    )
  const none = await main.call({ key } as never, 'data_retrieval', { url: 'example.com/é' })
  t.match(none, { status: 400, body: { errors: [{ pointer: '/url' }] } })
})
