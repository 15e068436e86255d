L0:
(W)     mov (16|M0)              r127.0<1>:ud  0x0:ud
(W)     and (1|M0)               r127.2<1>:ud  r0.0<0;1,0>:ud    0xFFFFFFC0:ud
(W)     and (1|M0)               r127.0<1>:uw  r0.4<0;1,0>:uw    0xFF:uw
(W)     add (1|M0)               r127.2<1>:ud  r127.2<0;1,0>:ud  0x20:ud              {I@2}
(W)     add (1|M0)               r127.2<1>:ud  r127.2<0;1,0>:ud  0x0:ud              {I@1}
(W)     mad (1|M0)               r127.0<1>:ud  r127.2<0;0>:ud    r127.0<0;0>:uw    0x40:uw              {I@1}
(W)     mov (8|M0)               r2.0<1>:ud    r1.0<1;1,0>:ud
(W)     send.ugm (1|M0)          r1       r127  null:0  0xFF000000            0x6219D500           {A@1,$0} // wr:1+0, rd:1; load.ugm.d32x16t.a32.ca.cc.bti[255]
(W)     and (1|M0)               r127.0<1>:ud  r0.0<0;1,0>:ud    0xFFFFFFC0:ud              {$0.src}
(W)     add (1|M0)               r127.0<1>:ud  r127.0<0;1,0>:ud  0x0:ud              {I@1}
(W)     send.ugm (1|M0)          r3       r127  null:0  0xFF000000            0x6219C500           {I@1,$1} // wr:1+0, rd:1; load.ugm.d32x8t.a32.ca.cc.bti[255]
(W)     mov (16|M0)              r4.0<1>:ud    r0.0<1;1,0>:ud
(W)     or (1|M0)                cr0.0<1>:ud   cr0.0<0;1,0>:ud   0x400004C0:ud              {A@1}
(W)     mul (1|M0)               acc0.0<1>:d   r2.3<0;1,0>:d     r4.2<0;1,0>:uw   {A@1}
(W)     cmp (16|M0)   (gt)f2.0   null<1>:d     r3.4<0;1,0>:d     0:w               {$1.dst}
(W)     macl (1|M0)              r5.0<1>:d     r2.3<0;1,0>:d     r4.1<0;1,0>:d
(W)     mov (1|M0)               r1.8<1>:d     r2.6<0;1,0>:d                    {$0.dst}
        add (16|M0)              r6.0<1>:d     r5.0<0;1,0>:d     r1.0<1;1,0>:uw   {I@2}
        add3 (16|M0)             r7.0<1>:d     r5.0<0;0>:d       r1.0<1;0>:uw      r2.0<0>:d
(W)     mov (1|M0)               r1.9<1>:d     r2.7<0;1,0>:d
(W)     mov (1|M0)               r1.10<1>:d    r3.0<0;1,0>:d
(W)     mov (1|M0)               r1.11<1>:d    r3.1<0;1,0>:d
(W&f2.0) jmpi                                L400
L368:
        mov (16|M0)              r8.0<1>:f     0.0:f
(W)     jmpi                                 L1040
L400:
(W)     mov (1|M0)               r10.0<1>:uq   r3.1<0;1,0>:uq
(W)     mov (1|M0)               r12.0<1>:q    r3.1<0;1,0>:q
(W)     send.ugm (1|M0)          r9       r10  null:0  0x0            0x02108580           {I@2,$2} // wr:1+0, rd:1; load.ugm.d32x1t.a64
(W)     send.ugm (1|M0)          r11      r12  null:0  0x4000            0x02108580           {I@1,$3} // wr:1+0, rd:1; load.ugm.d32x1t.a64.flat[A+0x4]
        mov (16|M0)              r8.0<1>:f     0.0:f
(W)     mov (1|M0)               r1.14<1>:d    0:w
(W)     cmp (16|M0)   (gt)f3.0   null<1>:d     r9.0<0;1,0>:d     3:w               {$2.dst}
(W)     cmp (16|M0)   (eq)f2.1   null<1>:d     r11.0<0;1,0>:d    1:w               {$3.dst}
(W&f3.0) sel (1|M0)              r1.12<1>:d    r1.8<0;1,0>:d     r1.10<0;1,0>:d
(W&f3.0) sel (1|M0)              r1.13<1>:d    r1.9<0;1,0>:d     r1.11<0;1,0>:d
L560:
(W)     shl (1|M0)               r2.8<1>:d     r1.14<0;1,0>:d    4:w               {I@5}
        add3 (16|M0)             r13.0<1>:d    r2.8<0;0>:d       r6.0<1;0>:d       r2.0<0>:d        {I@1}
        mov (16|M0)              r24.0<2>:ud   r13.0<1;1,0>:ud                  {I@1}
        shl (16|M0)              r14.0<1>:q    r24.0<2;1,0>:d    2:w               {I@1}
        add (16|M0)              r16.0<1>:q    r14.0<1;1,0>:q    r1.6<0;1,0>:q    {I@1}
        send.ugm (16|M0)         r18      r16  null:0  0x0            0x04100580           {I@1,$4} // wr:2+0, rd:1; load.ugm.d32.a64
(W&f2.1) jmpi                                L976
L672:
(W)     mov (1|M0)               r1.15<1>:d    1:w
(W)     mov (1|M0)               r2.9<1>:d     r11.0<0;1,0>:d
L704:
        math.exp (16|M0)         r19.0<1>:f    r18.0<1;1,0>:f                   {$4.dst}
(W)     and (1|M0)               r2.10<1>:d    r2.9<0;1,0>:d     1:w               {I@1}
        mul (16|M0)              r18.0<1>:f    r19.0<1;1,0>:f    0.5:f               {M@1}
(W)     cmp (16|M0)   (eq)f1.1   null<1>:d     r2.10<0;1,0>:d    0:w               {I@1}
(W&f1.1) jmpi                                L816
L784:
(W)     mad (1|M0)               r2.11<1>:d    r1.30<0;0>:w      r2.9<0;0>:d       3:w
(W)     jmpi                                 L912
L816:
(W)     cmp (16|M0)   (lt)f1.0   null<1>:d     r2.9<0;1,0>:d     0:w
(W&f1.0) jmpi                                L880
L848:
(W)     mov (1|M0)               r2.11<1>:d    r2.9<0;1,0>:d
(W)     jmpi                                 L896
L880:
(W)     add (1|M0)               r2.11<1>:d    r2.9<0;1,0>:d     1:w
L896:
(W)     asr (1|M0)               r2.11<1>:d    r2.11<0;1,0>:d    1:w               {I@1}
L912:
(W)     cmp (16|M0)   (eq)f0.1   null<1>:d     r2.11<0;1,0>:d    1:w               {I@1}
(W&f0.1) jmpi                                L976
L944:
(W)     mov (1|M0)               r2.9<1>:d     r2.11<0;1,0>:d
(W)     jmpi                                 L704
L976:
(W)     add (1|M0)               r1.14<1>:d    r1.14<0;1,0>:d    1:w
        add (16|M0)              r8.0<1>:f     r8.0<1;1,0>:f     r18.0<1;1,0>:f   {@1,$4.dst}
(W)     cmp (16|M0)   (lt)f0.0   null<1>:d     r1.14<0;1,0>:d    r3.4<0;1,0>:d    {I@1}
(W&f0.0) jmpi                                L560
L1040:
        mov (16|M0)              r26.0<2>:ud   r7.0<1;1,0>:ud                   {Compacted}
        shl (16|M0)              r20.0<1>:q    r26.0<2;1,0>:d    2:w               {I@1}
        add (16|M0)              r22.0<1>:q    r20.0<1;1,0>:q    r3.0<0;1,0>:q    {Compacted,I@1}
(W)     mov (16|M0)              r127.0<1>:ud  r4.0<1;1,0>:ud
        send.ugm (16|M0)         null     r22  r8:1  0x0            0x04000584           {A@1,$5} // wr:2+1, rd:0; store.ugm.d32.a64
(W)     send.gtwy (1|M0)         null     r127  null:0  0x0            0x02000010           {EOT,I@1,$6} // wr:1+0, rd:0; end of thread
L1120:
(W)     mov (16|M0)              null<1>:ud    0x6FEA62A5:ud
(W)     mov (16|M0)              null<1>:ud    0x99D0CABE:ud
(W)     mov (16|M0)              null<1>:ud    0x0:ud
