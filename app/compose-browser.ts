import type { Clock } from '../core/clock.ts'
import { createBrowser } from '../tools/browser/browser.ts'
import { findChromium } from '../tools/browser/find.ts'
import type { Browser } from '../tools/browser/port.ts'
import { parseAllow } from '../tools/egress/address.ts'
import type { ResolveAll } from '../tools/egress/resolver.ts'
import type { Config } from './config.ts'

export interface BrowserParts {
  readonly config: Config
  readonly clock: Clock
  readonly userAgent: string
  readonly resolve?: ResolveAll
  readonly log: (message: string, error: unknown) => void
}

/** The browser of this node; null where there is no Chromium. It is not started before it is used. */
export function composeBrowser({ config, ...parts }: BrowserParts): {
  browser: Browser | null
  close(): Promise<void>
} {
  const { chromiumPath, searchPath, production, ssrfAllow } = config
  const executable = findChromium(chromiumPath, searchPath)
  if (executable === null) {
    if (chromiumPath !== null && chromiumPath !== 'none')
      parts.log('CHROMIUM_PATH is no program', new Error(chromiumPath))
    return { browser: null, close: async () => {} }
  }
  const allow = parseAllow(ssrfAllow)
  return createBrowser({ ...parts, executable, searchPath, production, allow })
}
