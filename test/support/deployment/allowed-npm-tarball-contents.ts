import { execFileSync } from 'node:child_process'

/** What may be in a tarball of the package, beside the packages that come with it. */

const FOLDERS =
  'app|actors|calls|chain|core|domain|http|jobs|machines|memory|payments|persistence|providers|realtime|tools|web'
const ALLOWED = new RegExp(
  `^package/(${[
    `dist/(${FOLDERS})/.+\\.js(on)?`,
    'dist/package\\.json',
    'persistence/migrations/\\d{4}-[a-z\\d-]+\\.sql',
    'web/(assets|inspector)/[a-z-]+\\.(js|css|html)',
    'web/inspector/charts/[A-Za-z]+\\.json',
    'docs/([a-z]+/)?[a-z\\d-]+\\.(md|webp)',
    'package\\.json',
    '(sdk/)?README\\.md',
    'LICENSE',
    '(ARCHITECTURE|CHANGELOG|CONTRIBUTING|SECURITY)\\.md',
  ].join('|')})$`,
)

export interface PackageContents {
  /** Paths in the tarball. */
  readonly paths: readonly string[]
  /** Those of the package itself that the allow-list does not name. */
  readonly unexpected: readonly string[]
  /** The names of the packages that come with it. */
  readonly bundled: ReadonlySet<string>
}

/** Lists a tarball. */
export function readPackageContents(tarball: string): PackageContents {
  const listed = execFileSync('tar', ['-tzf', tarball], { encoding: 'utf8', maxBuffer: 64e6 })
  const paths = listed.split('\n').filter((path) => path !== '' && !path.endsWith('/'))
  const own = paths.filter((path) => !path.startsWith('package/dist/node_modules/'))
  const bundled = paths.flatMap(
    (path) => /^package\/dist\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? [],
  )
  return {
    paths,
    unexpected: own.filter((path) => !ALLOWED.test(path)),
    bundled: new Set(bundled),
  }
}

/** What npm says of packages that this Node should not run, or that nobody maintains. */
export const NPM_INSTALL_WARNING_PATTERN = /EBADENGINE|unsupported engine|deprecated|ERESOLVE/i
