import {
  describeBuilder,
  mayNameInstructModel,
  toShownName,
  toShownText,
} from './community/foreign-text.ts'
import { isHarmless, toShownSchema } from './community/schema-shown-to-models.ts'
import type { CatalogueEntry } from './tool-ports.ts'

/** Selects the tools whose descriptions a language model may read, and marks the texts of strangers. */

const WITHHELD =
  'The description is withheld: it contains what may be meant to instruct a model. Read it at docs_url.'

/**
 * Returns the native tools and the verified ones; with `community` all of them. The description of a tool
 * that others built names its builder and has at most 500 characters of theirs; one that may instruct the
 * model is withheld. The texts in its schemas and its examples are treated alike.
 */
export function selectToolsForModels(
  entries: readonly CatalogueEntry[],
  { community }: { readonly community: boolean },
): CatalogueEntry[] {
  return entries
    .filter(({ type, builder }) => type === 'native' || builder?.verified === true || community)
    .filter(({ type, slug }) => type === 'native' || !mayNameInstructModel(slug))
    .map((entry) => (entry.type === 'native' ? entry : toMarkedEntry(entry)))
}

function toMarkedEntry(entry: CatalogueEntry): CatalogueEntry {
  const builder = describeBuilder(entry)
  const text = toShownText(entry.description) ?? WITHHELD
  return {
    ...entry,
    name: toShownName(entry.name) ?? entry.slug,
    ...(entry.builder === undefined
      ? {}
      : { builder: { ...entry.builder, name: toShownName(entry.builder.name) ?? 'withheld' } }),
    input_schema: toShownSchema(entry.input_schema, builder),
    output_schema: toShownSchema(entry.output_schema, builder),
    example_calls: entry.example_calls.filter(isHarmless),
    description: `[Community tool by ${builder}. Its own words follow.] ${text}`,
  }
}
