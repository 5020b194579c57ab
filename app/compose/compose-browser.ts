import type { Clock } from '../../core/clock.ts'
import { createHeadlessBrowser } from '../../providers/browser/headless-browser.ts'
import { findChromium } from '../../providers/browser/find-chromium.ts'
import type { HeadlessBrowser } from '../../providers/browser/browser-port.ts'
import { parseIpAddressAllowlist } from '../../providers/egress/public-ip-address.ts'
import type { DnsAddressResolver } from '../../providers/egress/dns-resolver.ts'
import type { Config } from '../config.ts'

/** Composes the headless browser. */

export interface ComposeBrowserDeps {
  readonly config: Config
  readonly clock: Clock
  readonly userAgent: string
  readonly resolve?: DnsAddressResolver
  readonly log: (message: string, error: unknown) => void
}

/** Creates the browser; null without Chromium. It starts on first use. */
export function composeBrowser({ config, ...parts }: ComposeBrowserDeps): {
  browser: HeadlessBrowser | null
  close(): Promise<void>
} {
  const { chromiumPath, searchPath, production, ssrfAllow } = config
  const executable = findChromium(chromiumPath, searchPath)
  if (executable === null) {
    if (chromiumPath !== null && chromiumPath !== 'none')
      parts.log('CHROMIUM_PATH is no program', new Error(chromiumPath))
    return { browser: null, close: async () => {} }
  }
  const allow = parseIpAddressAllowlist(ssrfAllow)
  return createHeadlessBrowser({ ...parts, executable, searchPath, production, allow })
}
