"""How Angular code is written: each question has the way of recent releases and the one it replaces."""

from __future__ import annotations

from codeinfo.knowledge.detector import detectors

_CODE = detectors(
    "javascript",
    {
        ("dependency injection", "how Angular dependencies are injected"): (
            ("inject()", "inject(", r"=\s*inject(?:<[^>\n]*>)?\(", "private http = inject(HttpClient)"),
            (
                "constructor parameters",
                "constructor",
                r"\bconstructor\(\s*(?:@\w+\([^)\n]*\)\s*)*(?:private|public|protected|readonly)\s[^)]{0,500}?:\s*[A-Z]",
                "constructor(private http: HttpClient) {}",
            ),
        ),
        ("dependency injection", "where Angular services are provided"): (
            ("providedIn root", "providedIn", r"\bprovidedIn:\s*[\"']root[\"']", "@Injectable({ providedIn: 'root' })"),
            ("providers array", "providers:", r"\bproviders:\s*\[\s*[A-Z]\w+", "providers: [UserService]"),
        ),
        ("state management", "how Angular state is kept"): (
            ("signals", "signal(", r"=\s*signal(?:<[^;\n]*?>)?\(", "count = signal(0)"),
            ("RxJS subjects", "Subject", r"\bnew (?:Behavior|Replay)?Subject\b", "new BehaviorSubject(0)"),
            ("NgRx store", "@ngrx", r"from\s+[\"']@ngrx/store[\"']", "import { Store } from '@ngrx/store'"),
            ("NgRx signal store", "signalStore(", r"\bsignalStore\(", "export const S = signalStore()"),
        ),
        ("state management", "how Angular state is derived"): (
            ("computed()", "computed(", r"=\s*computed(?:<[^;\n]*?>)?\(", "total = computed(() => 1)"),
            ("combineLatest", "combineLatest(", r"\bcombineLatest\(", "combineLatest([a$, b$])"),
        ),
        ("component style", "how Angular components are declared"): (
            (
                "standalone components",
                "standalone: @Component",
                r"\bstandalone:\s*true\b|@Component\(\{[^}]{0,400}?\bimports:\s*\[",
                "@Component({ standalone: true })",
            ),
            ("NgModules", "@NgModule", r"@NgModule\(", "@NgModule({})"),
        ),
        ("component style", "how Angular inputs are declared"): (
            ("input()", "input", r"=\s*input(?:\.required)?(?:<[^;\n]*?>)?\(", "name = input.required<string>()"),
            ("@Input", "@Input(", r"@Input\(", "@Input() name = ''"),
        ),
        ("component style", "how Angular outputs are declared"): (
            ("output()", "output", r"=\s*output(?:<[^;\n]*?>)?\(", "saved = output<void>()"),
            ("@Output", "@Output(", r"@Output\(", "@Output() saved = new EventEmitter()"),
        ),
        ("component style", "how two-way values are declared"): (
            ("model()", "model(", r"=\s*model(?:\.required)?(?:<[^;\n]*?>)?\(", "checked = model(false)"),
            (
                "input with Change output",
                "Change",
                r"@Output\(\)\s*\w+Change\b",
                "@Output() valueChange = new EventEmitter()",
            ),
        ),
        ("component style", "how Angular views are queried"): (
            (
                "viewChild()",
                "viewChild contentChild",
                r"=\s*(?:view|content)Child(?:ren)?(?:\.required)?(?:<[^;\n]*?>)?\(",
                "box = viewChild('box')",
            ),
            ("@ViewChild", "@ViewChild @ContentChild", r"@(?:View|Content)Child(?:ren)?\(", "@ViewChild('box') box"),
        ),
        ("component style", "when Angular components are checked"): (
            (
                "OnPush",
                "OnPush",
                r"\bChangeDetectionStrategy\.OnPush\b",
                "changeDetection: ChangeDetectionStrategy.OnPush",
            ),
            (
                "explicit default checking",
                "ChangeDetectionStrategy.Default",
                r"\bChangeDetectionStrategy\.Default\b",
                "changeDetection: ChangeDetectionStrategy.Default",
            ),
        ),
        ("component style", "where Angular templates stand"): (
            ("template files", "templateUrl", r"\btemplateUrl:\s*[\"'`]", "templateUrl: './a.html'"),
            ("inline templates", "template:", r"\btemplate:\s*[\"'`]", "template: `<p>a</p>`"),
        ),
        ("component style", "how Angular host bindings are declared"): (
            ("host metadata", "host:", r"\bhost:\s*\{", "host: { '(click)': 'a()' }"),
            ("@HostListener and @HostBinding", "@Host", r"@Host(?:Listener|Binding)\(", "@HostListener('click')"),
        ),
        ("component style", "which Angular lifecycle is used"): (
            (
                "lifecycle hooks",
                "ngOn ngDo ngAfter",
                r"^\s*(?:public\s+)?ng(?:OnInit|OnChanges|OnDestroy|DoCheck|AfterViewInit|AfterContentInit|AfterViewChecked|AfterContentChecked)\(\)",
                "  ngOnInit(): void {",
            ),
            (
                "effects and render hooks",
                "effect( after",
                r"(?<![\w.$])(?:effect|afterNextRender|afterEveryRender|afterRender|afterRenderEffect)\(",
                "effect(() => this.a())",
            ),
        ),
        ("async style", "how Angular subscriptions end"): (
            ("takeUntilDestroyed", "takeUntilDestroyed", r"\btakeUntilDestroyed\(", "a$.pipe(takeUntilDestroyed())"),
            ("destroy subject", "takeUntil(", r"\btakeUntil\(", "a$.pipe(takeUntil(this.destroy$))"),
            ("unsubscribe()", ".unsubscribe(", r"\.unsubscribe\(\)", "this.sub.unsubscribe()"),
            ("toSignal", "toSignal(", r"\btoSignal\(", "user = toSignal(this.user$)"),
        ),
        ("async style", "how Angular resources are loaded"): (
            ("resource()", "esource(", r"=\s*(?:rxR|httpR|r)esource(?:<[^;\n]*?>)?\(", "user = resource({})"),
            ("HttpClient", "http.", r"\bhttp\.(?:get|post|put|patch|delete)\b", "this.http.get('/a')"),
        ),
        ("component style", "how Angular guards are written"): (
            (
                "functional guards",
                "CanActivateFn CanMatchFn CanDeactivateFn",
                r"\bCan(?:Activate|Match|Deactivate)(?:Child)?Fn\b",
                "export const g: CanActivateFn = () => true",
            ),
            (
                "guard classes",
                "implements Can",
                r"\bimplements Can(?:Activate|Load|Match|Deactivate)\b",
                "class G implements CanActivate {",
            ),
        ),
        ("component style", "how Angular interceptors are written"): (
            (
                "functional interceptors",
                "HttpInterceptorFn",
                r"\bHttpInterceptorFn\b",
                "export const i: HttpInterceptorFn = (r, n) => n(r)",
            ),
            (
                "interceptor classes",
                "implements HttpInterceptor",
                r"\bimplements HttpInterceptor\b",
                "class I implements HttpInterceptor {",
            ),
        ),
        ("component style", "how Angular routes are loaded"): (
            ("loadComponent", "loadComponent", r"\bloadComponent:", "loadComponent: () => import('./a')"),
            ("loadChildren", "loadChildren", r"\bloadChildren:", "loadChildren: () => import('./a')"),
        ),
        ("validation", "how Angular forms are built"): (
            (
                "reactive forms",
                "FormGroup( FormControl( FormBuilder",
                r"\bnew Form(?:Group|Control)\b|\bFormBuilder\b",
                "form = new FormGroup({})",
            ),
            (
                "template-driven forms",
                "NgForm FormsModule",
                r"\bNgForm\b|(?<!Reactive)\bFormsModule\b",
                "imports: [FormsModule]",
            ),
        ),
        ("testing", "how Angular components are set up in tests"): (
            ("TestBed", "TestBed", r"\bTestBed\.\w+", "TestBed.configureTestingModule({})"),
            ("Spectator", "spectator", r"from\s+[\"']@ngneat/spectator", "import { x } from '@ngneat/spectator'"),
        ),
    },
    within=("@angular/", "@ngrx/"),  # others say `computed(` too, and any class may keep its parameters
)

# Templates stand in files of their own or in strings, so a match may start inside one.
_TEMPLATES = detectors(
    "javascript",
    {
        ("component style", "how Angular templates branch and loop"): (
            (
                "@if and @for",
                "@if @for @switch @defer",
                r"@(?:if|for|switch|defer)\s*\([^)\n]|@defer\s*\{",
                "@if (user()) {",
            ),
            (
                "*ngIf and *ngFor",
                "ngIf ngFor ngSwitch",
                r"\*ng(?:If|For|SwitchCase)\b|\[ngSwitch\]",
                '<p *ngIf="user">',
            ),
        ),
        ("component style", "how Angular templates bind classes"): (
            ("[class.name]", "[class.", r"\[class\.[\w-]+\]", '<p [class.on]="a">'),
            ("[ngClass]", "[ngClass]", r"\[ngClass\]", '<p [ngClass]="a">'),
        ),
        ("async style", "how Angular templates read async values"): (
            ("async pipe", "async", r"\|\s*async\b", "{{ user$ | async }}"),
            ("signal reads", "{{", r"\{\{\s*\w+\(\)\s*\}\}", "{{ count() }}"),
        ),
    },
    in_text=True,
)

DETECTORS = (*_CODE, *_TEMPLATES)
