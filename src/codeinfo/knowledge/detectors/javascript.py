"""How JavaScript and TypeScript are written: React, Vue and Node. Angular has a table of its own."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors

_FROM = r"(?:from\s+|require\(\s*)[\"']"


def _package(names: str) -> str:
    """An import of one of the packages; the match starts at the keyword, outside the string."""
    return _FROM + rf"(?:{names})[\"'/]"


DETECTORS = detectors(
    "javascript",
    {
        ("dependency injection", "how dependencies reach a server's code"): (
            ("NestJS providers", "@nestjs", _package("@nestjs/common"), "import { Injectable } from '@nestjs/common'"),
            ("InversifyJS", "inversify", _package("inversify"), "import { inject } from 'inversify'"),
            ("tsyringe", "tsyringe", _package("tsyringe"), "import { container } from 'tsyringe'"),
            ("awilix", "awilix", _package("awilix"), "const a = require('awilix')"),
        ),
        ("state management", "where a React application keeps shared state"): (
            ("Redux Toolkit", "createSlice configureStore", r"\b(?:createSlice|configureStore)\(", "createSlice({})"),
            ("classic Redux", "mapStateToProps", r"\bmapStateToProps\b", "const mapStateToProps = s => s"),
            ("Zustand", "zustand", _package("zustand"), "import { create } from 'zustand'"),
            ("MobX", "mobx", _package("mobx|mobx-react|mobx-react-lite"), "import { observable } from 'mobx'"),
            ("Jotai", "jotai", _package("jotai"), "import { atom } from 'jotai'"),
            ("Recoil", "recoil", _package("recoil"), "import { atom } from 'recoil'"),
            ("React context", "createContext", r"\bcreateContext[<(]", "const C = createContext(null)"),
        ),
        ("state management", "how a React component keeps state"): (
            ("useState", "useState", r"\buseState[<(]", "const [a, setA] = useState(0)"),
            ("useReducer", "useReducer", r"\buseReducer[<(]", "useReducer(r, s)"),
            ("this.setState", "setState(", r"\bthis\.setState\(", "this.setState({})"),
        ),
        ("state management", "where a Vue application keeps shared state"): (
            ("Pinia", "defineStore", r"\bdefineStore\(", "export const useA = defineStore('a', {})"),
            ("Vuex", "vuex Vuex", _package("vuex") + r"|\bVuex\.Store\(", "import { createStore } from 'vuex'"),
        ),
        ("state management", "how Vue state is made reactive"): (
            ("ref", "ref(", r"(?<![\w.$])ref(?:<[^>\n]*>)?\(", "const a = ref(0)"),
            ("reactive", "reactive(", r"(?<![\w.$])reactive(?:<[^>\n]*>)?\(", "const a = reactive({})"),
        ),
        ("error handling", "how a failed promise is handled"): (
            ("try/catch", "catch", r"\}\s*catch\b", "try { await a() } catch (e) {}"),
            (".catch()", ".catch(", r"\.catch\(", "a().catch(e => 1)"),
        ),
        ("async style", "how code waits"): (
            ("async/await", "await", r"(?<![\w.$])await\s+[\w$(\[`]", "const a = await b()"),
            ("promise chains", ".then(", r"\.then\(", "a().then(b)"),
            (
                "callbacks",
                "err",
                r"\(\s*(?:err|error)\s*,\s*\w+\s*\)\s*=>|function\s*\(\s*(?:err|error)\s*,",
                "f((err, x) => 1)",
            ),
            ("RxJS subscribe", ".subscribe(", r"\.subscribe\(", "a$.subscribe(b)"),
        ),
        ("testing", "test framework"): (
            ("Vitest", "vitest", _package("vitest"), "import { test } from 'vitest'"),
            ("Jest", "jest", r"\bjest\.\w+\(|" + _package("@jest/globals"), "jest.mock('a')"),
            ("node:test", "node:test", _package("node:test"), "import test from 'node:test'"),
            ("Mocha with Chai", "chai", _package("chai"), "const { expect } = require('chai')"),
            ("Jasmine", "jasmine", r"\bjasmine\.\w+", "jasmine.createSpy()"),
            ("AVA", "ava", _package("ava"), "import test from 'ava'"),
        ),
        ("testing", "end-to-end tests"): (
            (
                "Playwright",
                "playwright",
                _package("@playwright/test|playwright"),
                "import { test } from '@playwright/test'",
            ),
            ("Cypress", "cy.", r"(?<![\w.$])cy\.\w+\(", "cy.visit('/')"),
        ),
        ("testing", "how components are tested"): (
            (
                "Testing Library",
                "testing-library",
                _package(r"@testing-library/[\w-]+"),
                "import { render } from '@testing-library/react'",
            ),
            ("Enzyme", "enzyme", _package("enzyme"), "import { shallow } from 'enzyme'"),
            ("Vue Test Utils", "test-utils", _package("@vue/test-utils"), "import { mount } from '@vue/test-utils'"),
        ),
        ("data access", "how the database is reached"): (
            ("Prisma", "prisma", r"\bprisma\.\w+\.\w+\(|" + _package("@prisma/client"), "prisma.user.findMany()"),
            ("TypeORM", "typeorm", _package("typeorm"), "import { Entity } from 'typeorm'"),
            ("Sequelize", "sequelize", _package("sequelize"), "import { Model } from 'sequelize'"),
            ("Mongoose", "mongoose", _package("mongoose"), "const m = require('mongoose')"),
            ("Knex", "knex", _package("knex"), "import knex from 'knex'"),
            ("Drizzle", "drizzle", _package(r"drizzle-orm[\w/-]*"), "import { eq } from 'drizzle-orm'"),
            ("raw SQL", ".query(", r"\.query\(\s*[\"'`]\s*(?i:select|insert|update|delete)\b", "db.query('SELECT 1')"),
        ),
        ("data access", "how HTTP is called"): (
            ("fetch", "fetch(", r"(?<![\w.$])fetch\(", "await fetch(url)"),
            ("axios", "axios", r"\baxios(?:\.\w+)?\(|" + _package("axios"), "axios.get(url)"),
            ("got", "got", _package("got"), "import got from 'got'"),
            ("XMLHttpRequest", "XMLHttpRequest", r"\bnew XMLHttpRequest\(", "new XMLHttpRequest()"),
        ),
        ("data access", "how a React component loads data"): (
            ("TanStack Query", "useQuery", r"\buseQuery[<(]", "useQuery({})"),
            ("SWR", "useSWR", r"\buseSWR[<(]", "useSWR('a', f)"),
            (
                "effect that fetches",
                "useEffect",
                r"\buseEffect\(\s*\(\)\s*=>\s*\{[^}]{0,200}?\bfetch\(",
                "useEffect(() => { fetch(u) })",
            ),
        ),
        ("validation", "how input is checked"): (
            ("Zod", "zod", _package("zod"), "import { z } from 'zod'"),
            ("Yup", "yup", _package("yup"), "import * as yup from 'yup'"),
            ("Joi", "joi", _package("joi|@hapi/joi"), "const Joi = require('joi')"),
            (
                "class-validator",
                "class-validator",
                _package("class-validator"),
                "import { IsInt } from 'class-validator'",
            ),
            ("Ajv", "ajv", _package("ajv"), "import Ajv from 'ajv'"),
            ("Valibot", "valibot", _package("valibot"), "import * as v from 'valibot'"),
        ),
        ("logging", "how messages are written"): (
            ("console", "console.", r"\bconsole\.(?:log|info|warn|error|debug)\(", "console.log('a')"),
            ("winston", "winston", _package("winston"), "import winston from 'winston'"),
            ("pino", "pino", _package("pino"), "import pino from 'pino'"),
            ("debug", "debug", _package("debug"), "const d = require('debug')"),
            ("logger object", "logger.", r"\b(?:this\.)?logger\.(?:log|info|warn|error|debug)\(", "logger.info('a')"),
        ),
        ("configuration", "where settings come from"): (
            ("process.env", "process.env", r"\bprocess\.env\b", "process.env.PORT"),
            ("import.meta.env", "import.meta.env", r"\bimport\.meta\.env\b", "import.meta.env.VITE_A"),
            (
                "config package",
                "config",
                _package("config|convict|@nestjs/config|nconf"),
                "const c = require('config')",
            ),
        ),
        ("component style", "how React components are written"): (
            ("function components", "use", r"\buse[A-Z]\w*[<(]", "const a = useRef(null)"),
            (
                "class components",
                "Component",
                r"\bextends (?:React\.)?(?:Pure)?Component\b",
                "class A extends React.Component {}",
            ),
        ),
        ("component style", "how Vue components are written"): (
            ("<script setup>", "<script", r"<script\b[^>\n]*\bsetup\b", '<script setup lang="ts">'),
            ("defineComponent", "defineComponent(", r"\bdefineComponent\(", "export default defineComponent({})"),
            ("options API", "default", r"^export default \{", "export default {\n  data() {} }"),
        ),
        ("component style", "how modules are loaded"): (
            ("ES modules", "import", r"^\s*import\b[^\n;(]*?[\"'{*\w]", "import a from 'b'"),
            ("CommonJS", "require(", r"(?<![\w.$])require\(\s*[\"']", "const a = require('b')"),
        ),
        ("component style", "how server routes are declared"): (
            ("Express", "express", _package("express"), "const express = require('express')"),
            ("Fastify", "fastify", _package("fastify"), "import fastify from 'fastify'"),
            ("NestJS controllers", "@Controller(", r"@Controller\(", "@Controller('cats')"),
            ("Koa", "koa", _package("koa"), "const Koa = require('koa')"),
            ("Hono", "hono", _package("hono"), "import { Hono } from 'hono'"),
        ),
        ("component style", "how React props are typed"): (
            ("TypeScript props", "Props", r"\b(?:type|interface) \w*Props\b", "type ButtonProps = {}"),
            ("prop-types", "prop-types", _package("prop-types"), "import PropTypes from 'prop-types'"),
        ),
    },
)
