import t from 'tap'
import { createSecretRedactor } from '../../../providers/egress/caller-secret-response-redactor.ts'

const MIB = 2 ** 20

t.test('all encodings of a secret are removed, and nothing else', async (t) => {
  const secret = 'k9!/+&"x_Ü-77'
  const { redactBytes, containsSecret, redactText } = createSecretRedactor([secret])
  const utf8 = Buffer.from(secret)
  const spellings = {
    plain: secret,
    percent: encodeURIComponent(secret),
    twice: encodeURIComponent(encodeURIComponent(secret)),
    json: JSON.stringify(secret).slice(1, -1).replaceAll('/', '\\/'),
    unicode: Array.from(
      secret,
      (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`,
    ).join(''),
    html: secret.replace('&', '&amp;').replace('"', '&quot;'),
    references: Array.from(secret, (one) => `&#x${one.charCodeAt(0).toString(16)};`).join(''),
    hex: utf8.toString('hex').toUpperCase(),
    hex_bytes: (utf8.toString('hex').match(/../g) ?? []).map((two) => `0x${two}`).join(', '),
    base64_lines: utf8.toString('base64').replace(/(.{6})/g, '$1\r\n'),
    base64url_within: Buffer.from(`ab${secret}cde`).toString('base64url'),
  }
  for (const [name, spelt] of Object.entries(spellings)) {
    const left = redactBytes(Buffer.from(`<< ${spelt} >>`)).toString()
    t.match(left, /^<< .{0,4}\[secret\].{0,6} >>$/s, name)
    t.ok(containsSecret(`https://a.example/?q=${spelt}`), name)
  }
  const turned = Buffer.from(utf8).reverse()
  t.equal(
    redactBytes(Buffer.concat([Buffer.from('a'), turned, Buffer.from('b')])).toString(),
    'a[secret]b',
  )
  const wide = Buffer.from(secret, 'utf16le')
  t.match(redactBytes(wide).toString('latin1'), /^\[secret\]\0?$/)
  t.equal(
    redactText(Buffer.from(secret, 'utf8').toString('latin1')),
    '[secret]',
    'as a header carries it',
  )
  const other = Buffer.from('k9!/+&"x_-77, %zz &#; &#x; \\u12 \\ & %2')
  t.equal(redactBytes(other), other, 'what is no secret stays as it is')
})

t.test('repetitive secrets and bodies take no longer than others', async (t) => {
  const letters = Buffer.alloc(MIB, 'a')
  for (const [secret, body, isThere] of [
    [`${'a'.repeat(8_000)}!`, letters, false],
    [`!${'a'.repeat(8_000)}`, letters, false],
    [`${'a'.repeat(4_000)}!${'a'.repeat(4_000)}`, letters, false],
    ['a'.repeat(8_000), letters, true],
    ['ab'.repeat(4_000), Buffer.from('ab'.repeat(MIB / 2)), true],
    ['%25'.repeat(2_000), Buffer.from('%25'.repeat(MIB / 3)), true],
    ['&'.repeat(2_000), Buffer.alloc(MIB, '&#'), false],
    ['\\'.repeat(2_000), Buffer.alloc(MIB, '\\'), true],
    ['0x'.repeat(2_000), Buffer.from('30 78 '.repeat(MIB / 6)), true],
  ] as const) {
    const left = createSecretRedactor([secret]).redactBytes(body)
    t.equal(left !== body, isThere, `${secret.slice(0, 8)} of ${secret.length}`)
  }
})

t.test('short secrets are not searched, since they occur by chance', async (t) => {
  t.equal(createSecretRedactor(['seven77']).redactText('seven77'), 'seven77')
  t.equal(createSecretRedactor([]).redactText('anything'), 'anything')
})
