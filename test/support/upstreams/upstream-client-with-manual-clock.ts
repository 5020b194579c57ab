import { createUpstreamClient } from '../../../providers/upstream/upstream-client.ts'
import { createManualClock } from '../tools/test-tool-context.ts'
import type { TeardownScope } from './fixture-server.ts'

/** An upstream client with a manual clock by default; it closes with the test. */
export function createUpstreamClientWithManualClock(
  t: TeardownScope,
  clock = createManualClock(),
  width?: number,
) {
  const upstream = createUpstreamClient({
    clock,
    userAgent: 'test/1',
    ...(width === undefined ? {} : { width }),
  })
  t.teardown(() => upstream.close())
  return upstream
}
