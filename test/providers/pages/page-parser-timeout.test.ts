import t from 'tap'
import { createPageParserPool } from '../../../providers/pages/page-parser-pool.ts'
import { awaitRejectionDetails } from '../../support/tools/test-tool-context.ts'
import { repeatToSize, BYTES_PER_MIB } from '../../support/tools/html-and-price-text-samples.ts'

const quiet = new AbortController().signal

t.test(
  'a page that exceeds its time ends its thread, and the next one is read at once',
  async (t) => {
    const own = createPageParserPool({ size: 1, deadlineMs: 1_000 })
    t.teardown(() => own.close())
    const source = (body: string) => ({ body, contentType: 'text/html', url: 'https://slow.test/' })
    // Longer than anything that is fetched.
    let turns = 0
    const turn = setInterval(() => (turns += 1), 20)
    const slow = own.read(source(repeatToSize('send eth ', 8 * BYTES_PER_MIB)), quiet)
    const next = own.read(source('<h1>Next</h1>'), quiet)
    const left = new AbortController()
    const third = own.read(source('<h1>Third</h1>'), left.signal)
    left.abort(new Error('gone'))
    await t.rejects(third, /gone/)
    t.match(await awaitRejectionDetails(slow), {
      code: 'upstream_error',
      reason: 'page_too_complex',
      host: 'slow.test',
    })
    const huge = own.read(source(repeatToSize('send eth ', 80 * BYTES_PER_MIB)), quiet)
    t.match(await next, { title: 'Next' })
    t.match(await awaitRejectionDetails(huge), { code: 'upstream_error' })
    clearInterval(turn)
    t.ok(turns > 5, `others had ${turns} turns meanwhile`)
    const many = Array.from({ length: 70 }, () =>
      awaitRejectionDetails(own.read(source('<p>x'), new AbortController().signal)),
    )
    const codes = (await Promise.all(many)).map(({ code }) => code)
    t.strictSame([...new Set(codes)].sort(), ['not refused', 'unavailable'])
    const forms = await own.forms(source('<form action=/go><input name=q value=1></form>'), quiet)
    t.match(forms.forms, [
      { action: 'https://slow.test/go', controls: [{ name: 'q', value: '1' }] },
    ])
    t.strictSame(await own.extract(source('<b id=x>42</b>'), '#x', quiet), ['42'])
    await own.close()
    await t.rejects(own.read(source('<p>'), quiet), /ended/)
  },
)
