import t from 'tap'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import { awaitRejectionDetails } from '../../support/tools/test-tool-context.ts'
import { repeatToSize, BYTES_PER_MIB } from '../../support/tools/html-and-price-text-samples.ts'

const place = { owner: 'a' }

t.test(
  'a page that exceeds its time ends its thread, and the next one is read at once',
  async (t) => {
    const own = createPageParserPool({ size: 1, deadlineMs: 1_000 })
    t.teardown(() => own.close())
    const source = (body: string) => ({ body, contentType: 'text/html', url: 'https://slow.test/' })
    // Longer than anything that is fetched.
    let turns = 0
    const turn = setInterval(() => (turns += 1), 20)
    const slow = own.read(source(repeatToSize('send eth ', 8 * BYTES_PER_MIB)), place)
    const next = own.read(source('<h1>Next</h1>'), place)
    const left = new AbortController()
    const third = own.read(source('<h1>Third</h1>'), { owner: 'a', signal: left.signal })
    left.abort(new Error('gone'))
    await t.rejects(third, /gone/)
    t.match(await awaitRejectionDetails(slow), {
      code: 'upstream_error',
      reason: 'page_too_complex',
      host: 'slow.test',
    })
    const huge = own.read(source(repeatToSize('send eth ', 80 * BYTES_PER_MIB)), place)
    t.match(await next, { title: 'Next' })
    t.match(await awaitRejectionDetails(huge), { code: 'upstream_error' })
    clearInterval(turn)
    t.ok(turns > 5, `others had ${turns} turns meanwhile`)
    const many = Array.from({ length: 70 }, () =>
      awaitRejectionDetails(own.read(source('<p>x'), place)),
    )
    const codes = (await Promise.all(many)).map(({ code }) => code)
    t.strictSame([...new Set(codes)].sort(), ['not refused', 'unavailable'])
    const forms = await own.forms(source('<form action=/go><input name=q value=1></form>'), place)
    t.match(forms.forms, [
      { action: 'https://slow.test/go', controls: [{ name: 'q', value: '1' }] },
    ])
    t.strictSame(await own.extract(source('<b id=x>42</b>'), '#x', place), ['42'])
    await own.close()
    await t.rejects(own.read(source('<p>'), place), /ended/)
  },
)

t.test(
  'a large body is parsed by a process, and one that takes too long is a problem',
  async (t) => {
    // No work is done in this time.
    const own = createPageParserPool({ size: 1, deadlineMs: 0 })
    t.teardown(() => own.close())
    const source = (body: string) => ({
      body: Buffer.from(body),
      contentType: null,
      url: 'https://a.test/',
    })
    const large = source(`a\n${repeatToSize('1\n', BYTES_PER_MIB)}`)
    const tooComplex = { code: 'upstream_error', reason: 'page_too_complex' }
    for (const format of ['csv', 'json', 'text'] as const)
      t.match(await awaitRejectionDetails(own.parseBody(large, format, place)), tooComplex, format)
    t.match(await awaitRejectionDetails(own.text(large, place)), tooComplex)
    t.strictSame(await own.parseBody(source('[12345678901234567890]'), 'json', place), {
      data: [12345678901234567890n],
    })
  },
)
