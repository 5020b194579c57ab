import { renderSdkToolTypes } from './render-sdk-tool-types.ts'
import { writeGeneratedFile } from './write-generated-docs.ts'

/** Writes the types of the SDK's tools: `npm run docs:sdk`. */

for (const [path, text] of renderSdkToolTypes()) writeGeneratedFile(path, text)
